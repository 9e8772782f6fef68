"""Retention: which rows are worth remembering when two endless streams are joined with room for n rows.

`join` and `cache` count what a policy finds over recorded streams: by chance, by frequency, by expected benefit under a
model of how the streams move (HEEB), or the best that was possible. Models are given, fitted (`fit`) or learned on the
way. `Store` is the live form; `Keeper`, which the pipeline hosts, gives it rows with times and says what was missed.
`Lookups` is the live form of `cache`, hosted where a stream is looked up in a table that does not fit.
"""

from tolerant.retention.benefit import dominated, dominates, ecb, heeb
from tolerant.retention.cache import cache
from tolerant.retention.fit import fit
from tolerant.retention.join import Run, join
from tolerant.retention.keeper import Keeper
from tolerant.retention.lookups import Lookups
from tolerant.retention.models import AR1, Known, Model, Scripted, Stationary, Trend, Walk
from tolerant.retention.noise import NormalNoise, UniformNoise
from tolerant.retention.possible import Estimate, Possible
from tolerant.retention.store import Store
from tolerant.retention.survival import Exponential, Fixed, Forever, Inverse

__all__ = [
    "AR1",
    "Estimate",
    "Exponential",
    "Fixed",
    "Forever",
    "Inverse",
    "Keeper",
    "Known",
    "Lookups",
    "Model",
    "NormalNoise",
    "Possible",
    "Run",
    "Scripted",
    "Stationary",
    "Store",
    "Trend",
    "UniformNoise",
    "Walk",
    "cache",
    "dominated",
    "dominates",
    "ecb",
    "fit",
    "heeb",
    "join",
]
