"""Very many continuous joins at once: which of 100,000 standing queries does this row touch?

`BandJoins` and `SelectJoins` hold queries and stored rows; a probe with a row of the other side says which queries gain
which rows, in time that depends on the answer and on how clustered the queries are. `TwoSidedBandJoins` and
`TwoSidedSelectJoins` let both sides change, deletions included; `RectangleJoins` are bands with a selection.
`stabbing_partition`, `StabbingPartition` and `Hotspots` are what it rests on: ranges of different users overlap, so
they fall into few groups that share a point, and for a whole group only the stored rows next to that point decide who
is affected. `interval_histogram` describes many ranges in few numbers. `Costs`, `estimate`, `choose`, `fit_costs` and
`calibrate` are how "auto" finds the cheapest method for a row.

Arrays in, arrays out: no Spark, no I/O; only `calibrate` looks at a clock.
"""

from tolerant.joins.band import BandJoins
from tolerant.joins.calibration import calibrate
from tolerant.joins.costs import Coefficient, Costs, Load, Sample, choose, estimate, fit_costs
from tolerant.joins.dynamic import StabbingPartition
from tolerant.joins.histogram import Histogram, histogram_error, interval_histogram
from tolerant.joins.hotspots import Hotspots
from tolerant.joins.partition import stabbing_partition
from tolerant.joins.rectangles import RectangleJoins
from tolerant.joins.select import SelectJoins
from tolerant.joins.statistics import Coverage, Frequencies
from tolerant.joins.two_sided import (
    BEFORE,
    NEVER,
    Changed,
    Told,
    ToldRuns,
    Touched,
    TwoSidedBandJoins,
    TwoSidedSelectJoins,
)

__all__ = [
    "BEFORE",
    "NEVER",
    "BandJoins",
    "Changed",
    "Coefficient",
    "Costs",
    "Coverage",
    "Frequencies",
    "Histogram",
    "Hotspots",
    "Load",
    "RectangleJoins",
    "Sample",
    "SelectJoins",
    "StabbingPartition",
    "Told",
    "ToldRuns",
    "Touched",
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
