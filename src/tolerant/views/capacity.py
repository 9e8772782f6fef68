"""Which promised times one engine can keep at once, and how much work each view may let pile up.

Refreshes run one at a time, the earliest deadline first; none is interrupted. In the worst case every view is asked for
at the same moment, while the longest refresh or push is under way: with views of the times D, whose refreshes take W,
and B the longest under way, all come in time if

    Σ W / D + B / min D ≤ 1

which for equal times is Σ W + B ≤ D. A view that is asked for more often than once per D has its turn behind the
others, so that it cannot take more than W of every D from them; where times are equal its requests come in time
nevertheless. (Liu and Layland's bound for earliest deadlines first, less what cannot be interrupted.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MARGIN = 0.9
"""The share of the promised time that predictions are kept within at most, the rest being for what no model knows."""


@dataclass(frozen=True)
class Promise:
    """A view is brought up to date `within` seconds; with few changes pending that takes `floor` seconds.

    `jobs`: how often per `within`: twice where a condition is told besides.
    """

    within: float
    floor: float
    jobs: int = 1

    @property
    def share(self) -> float:
        """The share of the engine's time that it needs at least."""
        return self.jobs * self.floor / self.within


def spare(promises: Mapping[str, Promise], margin: float = MARGIN) -> float:
    """The share of the engine's time that is left when every promise is kept; below 0: not all of them can be.

    >>> spare({"a": Promise(8, 1), "b": Promise(8, 2)}, margin=1)
    0.375
    """
    if not promises:
        return margin
    waiting = blocking(promises) / min(promise.within for promise in promises.values())
    return margin - waiting - sum(promise.share for promise in promises.values())


def blocking(promises: Mapping[str, Promise]) -> float:
    """The seconds that a refresh must wait at worst for what is under way: the longest floor."""
    return max((promise.floor for promise in promises.values()), default=0.0)


@dataclass(frozen=True)
class Limits:
    """The seconds that a refresh of each view may take, and those that may be under way, uninterrupted, before one."""

    refresh: dict[str, float]
    piece: float


def limits(promises: Mapping[str, Promise], margin: float = MARGIN) -> Limits:
    """Share the time that is left among the views and what may be under way.

    A view whose time is longer than another's never takes longer than what may be under way, for it may be just that.

    >>> limits({"a": Promise(8, 1), "b": Promise(8, 2)}, margin=1)
    Limits(refresh={'a': 2.0, 'b': 3.0}, piece=3.0)
    """
    shortest = min((promise.within for promise in promises.values()), default=0.0)
    part = max(0.0, spare(promises, margin)) / (len(promises) + 1)
    piece = blocking(promises) + part * shortest
    refresh = {name: promise.floor + part * promise.within / promise.jobs for name, promise in promises.items()}
    longer = {name for name, promise in promises.items() if promise.within > shortest}
    return Limits({name: min(time, piece) if name in longer else time for name, time in refresh.items()}, piece)


def needed(name: str, promises: Mapping[str, Promise], margin: float = MARGIN) -> float:
    """The least time that one view can promise beside the others; infinite: none.

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
    """Sorts views that somebody waits for: the earliest deadline first, behind all that had no turn in their time.

    `served`: when the view last had its turn. Whoever asks again and again so takes time from nobody else.
    """
    return now < served + within, deadline
