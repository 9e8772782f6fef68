"""The poller's arrays: one record per item, one per query, and the links between them.

Records and a few named tuples, because they are cheap to pass to compiled code, and a snapshot is the arrays and
nothing else: their field names are those of the snapshot. Indices are over the items that some query refers to.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.array_types import record_type

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.uint32]
"""Unsigned, because compiled code must test whether a signed index counts from the end."""
Flags = NDArray[np.bool_]
States = NDArray[np.int8]
Records = NDArray[Any]
Record: TypeAlias = Any
"""One entry of a record array, with its fields as attributes."""

LINEAR, MIN, MAX, COUNT = range(4)
"""Kinds of query. A count refers to no item."""

ROUNDING = 1.0 + 1e-9
"""A bound holds up to this factor (`docs/design/polling.md` §2.1)."""

ITEM = record_type(
    [
        ("value", np.float64),  # pulled last
        ("last", np.int64),  # tick of the last pull; −1 before the first
        ("stepped", np.int64),  # tick up to which the chain was advanced
        ("learned", np.int64),  # index of the state learned at the last pull
        ("running", np.int64),  # index of the state that the chain is in
        ("drift", np.float64),  # change that the chain predicts since the last pull
        ("bias", np.float64),  # dX, per tick
        ("cap", np.int64),  # ticks after which a pull is forced
        ("pulls", np.int64),
        ("variance", np.float64),  # ρ, of the change per tick
        ("growth", np.float64),  # h: after a ticks the variance is ρ·a^h; 1 is a walk
        ("usual", np.float64),  # mean ticks between pulls; this and those up to `change`: only where calibrated
        ("slow", np.float64),  # ρ over about 50 pulls
        ("quick", np.float64),  # ρ over about 5
        ("square", np.float64),  # mean square of the change between pulls
        ("pair", np.float64),  # mean product of two such changes in a row
        ("change", np.float64),  # the last such change
        ("predicted", np.float64),  # change predicted at this tick, PC
        ("blocked", np.int64),  # not to be pulled before this tick
        ("failures", np.int64),  # failed pulls in a row
        ("missing", np.int64),  # ticks in a row without a reply, less those that a reply may take
        ("first", np.int64),  # tick of the first pull
        ("key", np.uint64),  # of its random numbers
        ("cost", np.float64),
        ("server", np.int64),  # −1: a request of its own
        ("level", np.float64),  # slow level, for forecasts
        ("rate", np.float64),  # change per tick at the last pull, for forecasts
        ("predictor", np.int64),  # number of the predictor in use; 0: hold
        ("spacing", np.float64),  # change per tick of one step of the chain's states
        ("reach", np.float64),  # Σ |weight| over the linear queries (equation 12)
        ("always", np.bool_),  # in a query with within 0
        ("marked", np.bool_),  # to be pulled at this tick
    ]
)
"""The fields of an item."""

QUERY = record_type(
    [
        ("start", np.int64),  # its links are start … stop − 1
        ("stop", np.int64),
        ("kind", np.int64),
        ("within", np.float64),
        ("bound", np.float64),  # within with the allowance for rounding
        ("required", np.float64),  # fidelity that was asked for
        ("safety", np.float64),  # sf
        ("gamma", np.float64),
        ("before", np.float64),  # FD of the last window; NaN before the first
        ("good", np.float64),  # estimated ticks at which the bound held (§5.5)
        ("ticks", np.float64),  # ticks of which that was estimated
        ("missed", np.float64),  # estimated recent ticks at which the bound did not hold; where calibrated
        ("feared", np.float64),  # how many of them the model expected
        ("recent", np.float64),  # number of recent ticks
        ("haste", np.float64),  # factor on the doubt of all queries, the same for each
        ("since", np.int64),  # first tick at which all its items have a value; −1: some has none
    ]
)
"""The fields of a query, its feedback (§2.9) included."""


class Links(NamedTuple):
    """Which items are in which query."""

    items: Indices
    weights: Floats  # avg: already divided by the number of items
    shares: Floats  # the item's own bound in the query (equation 11)
    ordered: Integers  # the queries that are a min or a max


class Chains(NamedTuple):
    """The parts of the items' models that are arrays."""

    counts: Floats  # [items, states, states]
    sums: Floats  # [items, states], Σ of each row of counts
    spread: Floats  # [items, states], distribution of a chain that is propagated instead of drawn; else empty
    errors: Floats  # [items, predictors], squared error per tick
    past: Floats  # [items, PAST], last errors at pulls: leaps unscaled, others scaled to one tick; or empty
    leapt: Flags  # [items, PAST], which of them were leaps; or empty


class Window(NamedTuple):
    """What was observed of each item at the ticks of the current window: [items, window], or empty where not needed."""

    apart: Floats  # interpolated value less the value in use
    doubt: Floats  # variance around the interpolated value
    held: Floats  # value in use; for min and max
    drawn: Floats  # error of the item, had it moved as at one of its last pulls
    leapt: Flags  # whether that was a leap
    excused: States  # [queries, window], state of each query (`trust`); or empty: always kept


class HonestEstimate(NamedTuple):
    """What a window delivered by the honest estimate, in ticks: float64[queries] each."""

    good: Floats  # at which the bound held, of those counted
    counted: Floats  # at which something was promised
    missed: Floats  # at which the bound did not hold, of those judged
    judged: Floats  # at which every item was reachable


class Servers(NamedTuple):
    """Servers and their items: those of server s are items[start[s] : start[s + 1]]."""

    start: Integers
    items: Integers
    limits: Integers  # most pulls per tick and server, 0: any number; empty where no server has a limit


class Workspace(NamedTuple):
    """Arrays that the choice of a tick works in, allocated once: [items] each."""

    values: Floats  # in use
    changes: Floats  # predicted, 0 where marked; and a 0 at the end, for lanes without an item
    reach: Floats
    scores: Floats
    pressure: Floats  # weight of an item's variance in its rows, for "risk"; NaN where not computed yet
    marked: Flags


class Settings(NamedTuple):
    """The options as constants for compiled code."""

    chooser: int
    pull_ratio: float
    max_interval: int
    smoothing: float
    window: int
    feedback: int  # OFF, INTERPOLATED or HONEST
    report: bool  # keep the estimate for answers
    learning_rate: float
    intermediates: bool
    forecast: bool
    calibrated: bool
    cautious: bool
    forgetting: float  # fraction of the counts that is lost per tick
    limit: int  # pulls per tick; 0: any number
    patience: int  # ticks that a reply may take before its item counts as unreachable


OFF, INTERPOLATED, HONEST = range(3)
"""How feedback estimates the fidelity that was delivered."""
