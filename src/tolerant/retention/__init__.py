"""Decides which rows to keep when two unbounded streams are joined with memory for n rows.

`join` and `cache` count the results of a policy on recorded streams: random, by frequency, by expected benefit under a
model of how the streams move (HEEB), or the optimum. Models are given, fitted (`fit`) or learned from the rows. `Store`
is the live form; `Keeper`, which the pipeline hosts, feeds it rows with times and estimates how many results were
missed. `Lookups` is the live form of `cache`, hosted where a stream is looked up in a table that does not fit.
"""

from tolerant.retention.benefit import dominated, dominates, ecb, heeb
from tolerant.retention.fit import fit
from tolerant.retention.keeper import Keeper
from tolerant.retention.live_cache import Lookups
from tolerant.retention.models import AR1, Known, Scripted, Stationary, StreamModel, Trend, Walk
from tolerant.retention.noise import NormalNoise, UniformNoise
from tolerant.retention.offline.cache_simulation import cache
from tolerant.retention.offline.join_simulation import JoinRun, join
from tolerant.retention.possible_results import Possible, ShareEstimate
from tolerant.retention.store import Store
from tolerant.retention.survival import Exponential, Fixed, Forever, Inverse

__all__ = [
    "AR1",
    "Exponential",
    "Fixed",
    "Forever",
    "Inverse",
    "JoinRun",
    "Keeper",
    "Known",
    "Lookups",
    "NormalNoise",
    "Possible",
    "Scripted",
    "ShareEstimate",
    "Stationary",
    "Store",
    "StreamModel",
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
