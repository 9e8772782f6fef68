"""The poller's arrays: one record an item, one a query, and the links between them.

Records and a few named tuples, because compiled code takes them whole at little cost, and a snapshot is the arrays and
nothing else. Indices are over the items that some query refers to.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.uint32]
"""Unsigned, because compiled code must look whether a signed index counts from the end."""
Flags = NDArray[np.bool_]
States = NDArray[np.int8]
Records = NDArray[Any]
Record: TypeAlias = Any
"""One entry of such an array, by the names of its fields."""

LINEAR, MIN, MAX, COUNT = range(4)
"""Kinds of query. A count refers to no item."""

ROUNDING = 1.0 + 1e-9
"""A bound holds up to this factor (`specs/2-polling.md` §2.1)."""

ITEM = np.dtype(
    [
        ("value", np.float64),  # the last one pulled
        ("last", np.int64),  # tick of the last pull; −1 before the first
        ("stepped", np.int64),  # tick up to which the chain was executed
        ("learned", np.int64),  # index of the state learned at the last pull
        ("running", np.int64),  # index of the state that the chain is in
        ("drift", np.float64),  # what the chain has added since the last pull
        ("bias", np.float64),  # dX, per tick
        ("cap", np.int64),  # ticks after which a pull is forced
        ("pulls", np.int64),
        ("variance", np.float64),  # ρ, of the change per tick
        ("growth", np.float64),  # h: after a ticks the variance is ρ·a^h; 1 is a walk
        ("usual", np.float64),  # ticks between pulls, in the mean; this and those below: only where calibrated
        ("slow", np.float64),  # ρ over about 50 pulls
        ("quick", np.float64),  # ρ over about 5
        ("square", np.float64),  # mean square of the change between pulls
        ("pair", np.float64),  # mean product of two such changes in a row
        ("change", np.float64),  # the last one
        ("predicted", np.float64),  # PC at this tick
        ("blocked", np.int64),  # not to be asked before this tick
        ("failures", np.int64),  # failed pulls in a row
        ("missing", np.int64),  # ticks in a row at which it was asked for in vain, less those that an answer may take
        ("first", np.int64),  # tick of the first pull
        ("key", np.uint64),  # of its random numbers
        ("cost", np.float64),
        ("server", np.int64),  # −1: a request of its own
        ("level", np.float64),  # slow level, for forecasts
        ("rate", np.float64),  # change per tick at the last pull, for forecasts
        ("predictor", np.int64),  # the one in use; 0: hold
        ("spacing", np.float64),  # change per tick of one step of the chain's states
        ("reach", np.float64),  # Σ |weight| over the linear queries (equation 12)
        ("always", np.bool_),  # in a query with within 0
        ("marked", np.bool_),  # asked for at this tick
    ],
    align=True,
)
"""What is known of an item."""

QUERY = np.dtype(
    [
        ("start", np.int64),  # its links are start … stop − 1
        ("stop", np.int64),
        ("kind", np.int64),
        ("within", np.float64),
        ("bound", np.float64),  # within with the allowance for rounding
        ("required", np.float64),  # fidelity asked for
        ("safety", np.float64),  # sf
        ("gamma", np.float64),
        ("before", np.float64),  # FD of the last window; NaN before the first
        ("good", np.float64),  # ticks at which the bound is thought to have held (§5.5)
        ("ticks", np.float64),  # ticks of which that was thought
        ("missed", np.float64),  # recent ticks at which the bound is thought not to have held; where calibrated
        ("feared", np.float64),  # how many of them the model expected
        ("recent", np.float64),  # how many ticks are recent
        ("haste", np.float64),  # what all queries together are asked more for, the same for each
        ("since", np.int64),  # tick from which on all its items have a value; −1: some has none
    ],
    align=True,
)
"""What is known of a query, its feedback (§2.9) included."""


class Links(NamedTuple):
    """Which items are in which query."""

    items: Indices
    weights: Floats  # avg: already divided by the number of items
    shares: Floats  # the item's own bound in the query (equation 11)
    ordered: Integers  # the queries that are a min or a max


class Chains(NamedTuple):
    """The items' models, where they are more than a number."""

    counts: Floats  # [items, states, states]
    sums: Floats  # [items, states], Σ of each row of counts
    spread: Floats  # [items, states], where a chain is when it is propagated instead of drawn; else empty
    errors: Floats  # [items, predictors], squared error per tick
    past: Floats  # [items, PAST], last errors at pulls: leaps as they were, others as after one tick; or empty
    leapt: Flags  # [items, PAST], which of them were leaps; or empty


class Window(NamedTuple):
    """What was seen of each item at the ticks of the current window: [items, window], or empty where not asked for."""

    apart: Floats  # interpolated less held value
    doubt: Floats  # variance around the interpolated value
    held: Floats  # held value; for min and max
    drawn: Floats  # how far off the item would have been, had it done as at one of its last pulls
    leapt: Flags  # whether that was a leap
    excused: States  # [queries, window], how far each query could be kept at all (`trust`); or empty: always


class Honest(NamedTuple):
    """What a window delivered by the honest estimate, in ticks: [queries] each."""

    good: Floats  # at which the bound held, of those at which something was promised
    counted: Floats  # how many these are
    missed: Floats  # at which it did not hold, of those at which every item could be had
    judged: Floats  # how many those are


class Room(NamedTuple):
    """Where the choice of a tick is worked out, made once: [items] each."""

    values: Floats  # held
    changes: Floats  # predicted, 0 where marked; and a 0 at the end, for lanes without an item
    reach: Floats
    scores: Floats
    pressure: Floats  # what an item's variance is to its rows, for "risk"; NaN where not summed up yet
    marked: Flags


class Settings(NamedTuple):
    """Numbers that stay as they are."""

    chooser: int
    pull_ratio: float
    max_interval: int
    smoothing: float
    window: int
    feedback: int  # 0: none, 1: interpolated, 2: with the doubt between pulls
    report: bool  # keep the estimate for answers
    learning_rate: float
    intermediates: bool
    forecast: bool
    calibrated: bool
    cautious: bool
    forgetting: float  # part of the counts that is lost per tick
    limit: int  # pulls per tick; 0: any number
    patience: int  # ticks that an answer may take before its item counts as one that cannot be had


OFF, INTERPOLATED, HONEST = range(3)
