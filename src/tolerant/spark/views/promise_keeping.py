"""The promised times of the views that share an engine: how long each may take, and which can no longer be in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import NamedTuple

from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.live import LiveView
from tolerant.spark.views.refresh_costs import TooSlow
from tolerant.views.capacity import Promise, RefreshLimits, limits, needed


class PromiseStatus(NamedTuple):
    """Seconds that a view's refreshes may take, and the least that it could promise (None: nothing); how many views
    share the engine, and the seconds that one uninterrupted piece of work may take.
    """

    limit: float
    needs: float | None
    shared_by: int
    piece: float


class PromiseKeeper:
    """The promises of a pipeline's views beside those of other pipelines on the same engine.

    `tell` is called with a message for each view that has been timed, or whose promise does not fit any more.
    """

    def __init__(self, promises: MutableMapping[str, Promise], tell: Callable[[str], None]) -> None:
        self._promises, self.tell = promises, tell
        self.limits = RefreshLimits({}, math.inf)
        self._overcommitted: frozenset[str] = frozenset()  # views whose promise cannot be kept as things are
        self._renewals: dict[str, Iterator[None]] = {}  # those that are timed again, for they may be quick enough now

    def share(self, views: Mapping[str, LiveView], *, warn: bool) -> None:
        """Publishes the promises of these views, and allots to every view the time that the others do not need.

        `warn`: also report the views whose promise can no longer be kept, and those whose promise can be again.
        """
        self._promises.update({name: live.costs.promise for name, live in views.items()})
        self.limits = limits(dict(self._promises))
        for name, live in views.items():
            live.costs.allow(self.limits.refresh[name])
        if warn:
            self._warn(views)

    def _warn(self, views: Mapping[str, LiveView]) -> None:
        """Reports what has changed since the last time.

        A view is timed when it is made and at every start, and every push is learned from: the machine, the tables or
        the load may have changed since it was accepted. It is not dropped for that: its answers are right, and
        `status` counts those that come late.
        """
        broken = {}
        for name, live in views.items():
            try:
                live.costs.check(self._promises)
            except TooSlow as error:
                broken[name] = str(error)
        for name, reason in broken.items():
            if name not in self._overcommitted:
                self.tell(f"View {name} will be LATE at times: {reason}")
        for name in sorted(self._overcommitted & views.keys() - broken.keys()):
            self.tell(f"View {name} can keep REFRESH WITHIN {views[name].within:g} s again")
        self._overcommitted = frozenset(broken)

    def admit(self, live: LiveView) -> None:
        """Checks that a new view can keep its promise beside the others.

        Raises:
            TooSlow: it cannot.
        """
        live.costs.check({**self._promises, live.name: live.costs.promise})

    def withdraw(self, view: str) -> None:
        """Ends the promise of a view."""
        self._promises.pop(view, None)
        self._renewals.pop(view, None)

    def to_renew(self, views: Mapping[str, LiveView], logs: Mapping[str, DeltaLog], elapsed: float) -> str | None:
        """Returns a view that was found too slow and whose timings are old, for `renew_piece`."""
        for name in sorted(self._overcommitted & views.keys() - self._renewals.keys()):
            if views[name].costs.has_old_timings(elapsed):
                self._renewals[name] = views[name].costs.renew_timings(logs, elapsed)
        return next(iter(self._renewals), None)

    def renew_piece(self, name: str, views: Mapping[str, LiveView]) -> bool:
        """Times a piece of a view (`to_renew`); returns whether that was the last."""
        if next(self._renewals[name], self) is not self:
            return False
        self._renewals.pop(name)
        self.share(views, warn=True)
        return True

    def status(self, view: str) -> PromiseStatus:
        """Returns how a view's promise stands beside the others."""
        least = needed(view, dict(self._promises))
        needs = least if math.isfinite(least) else None
        return PromiseStatus(self.limits.refresh[view], needs, len(self._promises), self.limits.piece)
