"""Evaluates very many continuous joins at once: which of 100,000 continuous queries does a row affect?

`BandJoins` and `SelectJoins` store queries and rows; a probe with a row of the other side returns which queries gain
which rows, in time that depends on the size of the result and on how clustered the queries are. `TwoSidedBandJoins` and
`TwoSidedSelectJoins` let both sides change, deletions included. They rest on `stabbing_partition`: ranges of different
users overlap, so they form few groups that share a point, and for a whole group only the stored rows next to that
point decide which queries are affected. `CostCoefficients`, `estimate`, `choose` and `fit_costs` find the cheapest
method for a row.

No pipeline uses what is in `tolerant.joins.offline`: `StabbingPartition`, `Hotspots`, `RectangleJoins`,
`interval_histogram`, `calibrate` and statistics.

Arrays in, arrays out: no Spark, no I/O; only `calibrate` reads a clock.
"""

from tolerant.joins.band import BandJoins
from tolerant.joins.method_costs import Coefficient, CostCoefficients, Load, Sample, choose, estimate, fit_costs
from tolerant.joins.offline.calibrate import calibrate
from tolerant.joins.offline.dynamic_partition import StabbingPartition
from tolerant.joins.offline.histogram import Histogram, histogram_error, interval_histogram
from tolerant.joins.offline.hotspots import Hotspots
from tolerant.joins.offline.rectangles import RectangleJoins
from tolerant.joins.offline.running_statistics import BucketCoverage, BucketFrequencies
from tolerant.joins.partition import stabbing_partition
from tolerant.joins.select import SelectJoins
from tolerant.joins.two_sided import (
    BEFORE,
    NEVER,
    JoinDelta,
    JoinDeltaRuns,
    RowLifetimes,
    SignedResults,
    TwoSidedBandJoins,
    TwoSidedSelectJoins,
)

__all__ = [
    "BEFORE",
    "NEVER",
    "BandJoins",
    "BucketCoverage",
    "BucketFrequencies",
    "Coefficient",
    "CostCoefficients",
    "Histogram",
    "Hotspots",
    "JoinDelta",
    "JoinDeltaRuns",
    "Load",
    "RectangleJoins",
    "RowLifetimes",
    "Sample",
    "SelectJoins",
    "SignedResults",
    "StabbingPartition",
    "TwoSidedBandJoins",
    "TwoSidedSelectJoins",
    "calibrate",
    "choose",
    "estimate",
    "fit_costs",
    "histogram_error",
    "interval_histogram",
    "stabbing_partition",
]
