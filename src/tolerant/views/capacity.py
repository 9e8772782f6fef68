"""Computes which refresh times one engine can promise together, and how much work each view may accumulate.

Refreshes run one at a time, the earliest deadline first; none is interrupted. In the worst case every view is
requested at the same moment, while the longest refresh or push is running: with promised times D, refreshes that take
W, and B the longest that may be running, all are in time if

    Σ W / D + B / min D ≤ 1

which for equal times is Σ W + B ≤ D. A view that is requested more often than once per D is served after
the others, so that it cannot take more than W of every D from them; where times are equal its requests are in time
nevertheless. (Liu and Layland's bound for earliest deadline first, less the part that cannot be interrupted.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MARGIN = 0.9
"""The largest share of the promised time that predictions may fill; the rest covers what no model predicts."""


@dataclass(frozen=True)
class Promise:
    """A promise to refresh a view `within` seconds; with few changes pending a refresh takes `floor` seconds.

    `jobs`: refreshes per `within`; two where a condition on the view is notified too.
    """

    within: float
    floor: float
    jobs: int = 1

    @property
    def share(self) -> float:
        """Return the share of the engine's time that the promise needs at least."""
        return self.jobs * self.floor / self.within


def spare(promises: Mapping[str, Promise], margin: float = MARGIN) -> float:
    """Return the share of the engine's time that is left when every promise is kept; below 0: not all of them can be.

    >>> spare({"a": Promise(8, 1), "b": Promise(8, 2)}, margin=1)
    0.375
    """
    if not promises:
        return margin
    waiting = blocking(promises) / min(promise.within for promise in promises.values())
    return margin - waiting - sum(promise.share for promise in promises.values())


def blocking(promises: Mapping[str, Promise]) -> float:
    """Return the seconds that a refresh waits at most for a running one: the longest floor."""
    return max((promise.floor for promise in promises.values()), default=0.0)


@dataclass(frozen=True)
class RefreshLimits:
    """The seconds that a refresh of each view may take, and that one uninterrupted piece of work may take."""

    refresh: dict[str, float]
    piece: float


def limits(promises: Mapping[str, Promise], margin: float = MARGIN) -> RefreshLimits:
    """Divide the spare time among the views and the longest running piece of work.

    A view whose time is longer than another's never takes longer than `piece`, because it may be the running piece.

    >>> limits({"a": Promise(8, 1), "b": Promise(8, 2)}, margin=1)
    RefreshLimits(refresh={'a': 2.0, 'b': 3.0}, piece=3.0)
    """
    shortest = min((promise.within for promise in promises.values()), default=0.0)
    part = max(0.0, spare(promises, margin)) / (len(promises) + 1)
    piece = blocking(promises) + part * shortest
    refresh = {name: promise.floor + part * promise.within / promise.jobs for name, promise in promises.items()}
    longer = {name for name, promise in promises.items() if promise.within > shortest}
    return RefreshLimits({name: min(time, piece) if name in longer else time for name, time in refresh.items()}, piece)


def needed(name: str, promises: Mapping[str, Promise], margin: float = MARGIN) -> float:
    """Return the least time that one view can promise beside the others; infinite if none.

    >>> needed("b", {"a": Promise(8, 1), "b": Promise(2, 2)}, margin=1)
    4.571428571428571
    """
    others = {other: promise for other, promise in promises.items() if other != name}
    own, wait = promises[name].jobs * promises[name].floor, blocking(promises)
    left = margin - sum(promise.share for promise in others.values())
    shortest = min((promise.within for promise in others.values()), default=math.inf)
    if left > 0 and (own + wait) / left <= shortest:
        return (own + wait) / left
    beside = left - wait / shortest
    return max(shortest, own / beside) if beside > 0 else math.inf


def urgency(deadline: float, within: float, served: float, now: float) -> tuple[bool, float]:
    """Return a sort key of requested views: earliest deadline first, after all views not served within their time.

    `served`: when the view was last refreshed. Repeated requests of one view thus take no time from the others.
    """
    return now < served + within, deadline
