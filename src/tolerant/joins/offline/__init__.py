"""The parts of the joins core that no pipeline runs; experiments, benchmarks and users of the library import them.

`calibrate` fits the cost coefficients to a machine. `interval_histogram` approximates how many ranges contain a value.
`StabbingPartition` and `Hotspots` keep stabbing partitions of changing ranges. `RectangleJoins` are band joins with a
selection. `BucketCoverage` and `BucketFrequencies` are statistics that are updated by addition.
"""
