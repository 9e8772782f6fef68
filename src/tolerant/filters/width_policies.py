"""The policies that decide widths in the pipeline (`docs/design/filters.md` §2.3, §2.4, §5).

A policy is called at the end of each period, whenever grants may have been confirmed, and after the set of queries or
items has changed. It issues its grants itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.answer_emitter import AnswerEmitter
from tolerant.filters.grant_log import GrantLog
from tolerant.filters.growth import reallocate
from tolerant.filters.item_membership import Membership
from tolerant.filters.probing import NO_PENDING_ROWS, PendingRows, items_to_probe, suppressible_sides
from tolerant.filters.state import Floats, Integers
from tolerant.filters.width_planner import WidthPlanner
from tolerant.kernels.random import key_of
from tolerant.kernels.snapshots import Fields, Restorable


class PolicyOptions(NamedTuple):
    """Options of the policies: see `Coordinator`."""

    period: int
    seed: int
    shard: int
    share: int
    probes: bool


class FixedWidths(Restorable):
    """Widths change only with the queries; the base of all policies."""

    FIELDS = Fields()

    def __init__(
        self, name: str, membership: Membership, grant_log: GrantLog, emitter: AnswerEmitter, options: PolicyOptions
    ) -> None:
        self.name, self._options = name, options
        self._membership, self._grant_log, self._emitter = membership, grant_log, emitter

    def initial(self, widths: Floats) -> Floats:
        """The widths to start from after a change of queries or items, given those of the uniform policy."""
        return widths

    def on_period_end(self, widths: Floats, at: int) -> dict[str, float]:
        """A period has ended, in which these widths were granted; returns the new widths granted, by item."""
        return {}

    def on_settle(self, at: int) -> None:
        """Rows up to `at` have been applied: grants may have been confirmed."""

    def on_pending_rows(self, pending: PendingRows, at: int) -> None:
        """Rows have arrived that are not due yet."""

    def on_reallocate(self, at: int) -> None:
        """Queries or items have changed, and widths have been granted accordingly."""

    def _by_name(self, which: Integers, widths: Floats) -> dict[str, float]:
        names = self._membership.item_names
        return {str(names[item]): float(width) for item, width in zip(which, widths, strict=True)}


class ExactWidths(FixedWidths):
    """All widths are 0: every change is sent."""

    def initial(self, widths: Floats) -> Floats:
        """Zeros."""
        return np.zeros(len(widths))


class AdaptiveWidths(FixedWidths):
    """Filters shrink at the end of each period; what that frees is granted where it saves most ([OJW03])."""

    FIELDS = Fields("_targets")

    _targets: Floats | None = None

    def on_period_end(self, widths: Floats, at: int) -> dict[str, float]:
        """Grant what is free to the items whose burden exceeds the target most."""
        options, grant_log, state, n = self._options, self._grant_log, self._membership.items, self._membership.size
        grant_log.refresh()
        result = reallocate(
            self._membership.rows(),
            widths,
            state.updates[:n],
            state.cost[:n],
            period=options.period,
            shrink=grant_log.shrink,
            targets=self._targets,
            key=key_of(options.seed, options.shard, grant_log.passed),
            shrunk=grant_log.granted(),
            believed=state.width[:n],
            share=options.share,
        )
        self._targets = result.targets
        which = np.flatnonzero(result.granted)
        grant_log.issue(which, result.widths[which], np.ones(len(which), np.bool_), at)
        return self._by_name(which, result.widths[which])

    def on_reallocate(self, at: int) -> None:
        """Discard the targets, which are per constraint."""
        self._targets = None


class PredictiveWidths(FixedWidths):
    """Width moves only when a plan saves more messages than it costs; items of MIN and MAX may be suppressed."""

    FIELDS = Fields(parts=["planner"])

    def __init__(
        self, name: str, membership: Membership, grant_log: GrantLog, emitter: AnswerEmitter, options: PolicyOptions
    ) -> None:
        super().__init__(name, membership, grant_log, emitter, options)
        self.planner = WidthPlanner(options.period)

    def on_period_end(self, widths: Floats, at: int) -> dict[str, float]:
        """Grow what an earlier plan has made room for, or else tighten by a new plan; then suppress items."""
        tick = at // self._emitter.length
        which, new = self.planner.grow(self._membership, tick)
        if not len(which):
            which, new = self.planner.tighten(self._membership, widths, tick)
        self._grant_log.issue(which, new, np.zeros(len(which), np.bool_), at)
        if self._options.probes:
            self._suppress(at, tick)
        return self._by_name(which, new)

    def _suppress(self, at: int, tick: int) -> None:
        chosen = self.planner.suppressions(self._membership, tick)
        if len(chosen.which):
            self._grant_log.suppress(chosen.which, chosen.side, chosen.beyond, at)

    def on_settle(self, at: int) -> None:
        """Probe items that may be too near, and grow items into room that is confirmed to be free."""
        self.on_pending_rows(NO_PENDING_ROWS, at)
        which, widths = self.planner.grow(self._membership, at // self._emitter.length)
        if len(which):
            self._grant_log.issue(which, widths, np.zeros(len(which), np.bool_), at)
            self._emitter.refresh(at)

    def on_pending_rows(self, pending: PendingRows, at: int) -> None:
        """Probe the suppressed items that may matter once the pending rows are applied."""
        if self._options.probes:
            near = items_to_probe(self._emitter.tick, pending, *self._membership.arrays())
            if len(near):
                self._grant_log.probe(near, at)

    def on_reallocate(self, at: int) -> None:
        """Cancel pending growth, and probe suppressed items that a query other than their extreme needs now."""
        items, queries, links = self._membership.arrays()
        items.pending[:] = 0.0
        if self._options.probes:
            n = self._membership.size
            sides = items.suppress_side[:n]
            wrong = (sides != suppressible_sides(n, queries, links)) & (np.diff(links.item_start[: n + 1]) > 0)
            which = np.flatnonzero(wrong & (sides != 0) & ~items.probed[:n])
            if len(which):
                self._grant_log.probe(which, at)


POLICIES: dict[str, type[FixedWidths]] = {
    "exact": ExactWidths,
    "uniform": FixedWidths,
    "adaptive": AdaptiveWidths,
    "predictive": PredictiveWidths,
}
"""The policies of a coordinator, by name."""
