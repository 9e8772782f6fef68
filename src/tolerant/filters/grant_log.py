"""Issues grants: numbers them, stores them in the items' slots until confirmed, and queues them for sending."""

from __future__ import annotations

import numpy as np

from tolerant.filters import beliefs
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import Codes, Flags, Floats, Integers, IssuedGrants
from tolerant.kernels.decay import periods_passed, powers
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.kernels.versions import version

_LONGEST = 5.0
"""Periods: the longest time for which a grant counts as in flight."""
_FORGETTING = 0.9
"""Factor by which the observed time in flight decays per period."""
_MARGIN = 1.5
"""Times that time: a grant that is not confirmed by then counts as lost."""

_NO_GRANTS = (np.int64, np.float64, np.bool_, np.int64, np.int64, np.bool_, np.float64, np.int8, np.float64)


class GrantLog(Restorable):
    """Issues the grants of a membership's items. `passed`: number of periods that have ended; `issued`: of grants.

    A version below `least_version` confirms nothing: another pipeline may have granted since.
    `interval`: length of a period in microseconds, where times are event times; None: each `end_period` ends one.
    """

    FIELDS = Fields("passed", "issued", "epoch", "least_version", "in_flight")

    def __init__(self, membership: Membership, shrink: float, epoch: int, interval: int | None) -> None:
        self._membership = membership
        self.shrink, self.powers = shrink, powers(shrink)
        self.epoch, self.interval = epoch, interval
        self.passed = 0
        self.issued = 0
        self.least_version = 0
        self.in_flight = 0.0
        """The most periods that a grant was recently in flight, decaying."""
        self._undelivered: list[IssuedGrants] = []

    def granted(self) -> Floats:
        """The present width of the newest grant of every item index; infinite without a grant."""
        return beliefs.granted_many(self._membership.items, self._membership.size, self.passed, self.powers)

    def shrinking(self) -> Flags:
        """Whether the newest grant of every item index shrinks at the end of each period."""
        state, n = self._membership.items, self._membership.size
        count = state.grant_count[:n].astype(np.int64)
        return state.slot_shrinks[np.arange(n), np.maximum(count - 1, 0)] & (count > 0)

    def newest(self, items: Integers) -> Integers:
        """The version of the newest grant of each item, 0 without a grant."""
        state = self._membership.items
        count = state.grant_count[items].astype(np.int64)
        return np.where(count > 0, state.slot_high[items, np.maximum(count - 1, 0)], 0)

    def refresh(self) -> None:
        """Recompute the believed widths."""
        beliefs.refresh_widths(self._membership.items, self._membership.size, self.passed, self.powers)

    def end_period(self, at: int) -> None:
        """Count the period that ends at `at`."""
        self.in_flight *= _FORGETTING
        self.passed = periods_passed(at + 1, self.interval) if self.interval else self.passed + 1

    def skip_periods(self, at: int) -> int:
        """Count all periods that end up to `at`, in event time; returns how many they are."""
        assert self.interval is not None
        before, self.passed = self.passed, periods_passed(at + 1, self.interval)
        self.in_flight *= _FORGETTING ** (self.passed - before)
        return self.passed - before

    def issue(self, which: Integers, widths: Floats, shrinks: Flags, at: int) -> None:
        """Grant widths to items, in force from just after `at`."""
        since = at + 1 if self.interval else at
        begun = periods_passed(since, self.interval) if self.interval else self.passed
        # One counter for all items: an item that returns after its removal must not see a version twice.
        first = version(self.epoch, self.issued + 1)
        self.issued += len(which)
        versions, narrower = beliefs.issue_many(
            which, widths, shrinks, first, since, begun, self.passed, self.powers, self._membership.items
        )
        self._queue(which, widths, shrinks, np.full(len(which), since), versions, narrower)

    def suppress(self, which: Integers, side: Codes, beyond: Floats, at: int) -> None:
        """Let items stay silent while they are beyond these thresholds on this side, until their next row."""
        state = self._membership.items
        state.suppress_side[which], state.suppress_beyond[which], state.probed[which] = side, beyond, False
        self.issue(which, self.granted()[which], self.shrinking()[which], at)
        self._undelivered[-1] = self._undelivered[-1]._replace(suppress_side=side, suppress_beyond=beyond)
        state.suppress_version[which] = self._undelivered[-1].version

    def probe(self, which: Integers, at: int) -> None:
        """Probe items: asks for a row, which ends their suppression; they keep their widths."""
        self._membership.items.probed[which] = True
        self.issue(which, self.granted()[which], self.shrinking()[which], at)
        self._undelivered[-1].confirm[:] = True

    def repeat(self, which: Integers, at: int) -> None:
        """Grant items their present width again under a new version."""
        self.issue(which, self.granted()[which], self.shrinking()[which], at)

    def regrant_unknown_versions(
        self, items: Integers, ats: Integers, grants: Integers, known: Flags, unknown: Integers
    ) -> None:
        """Grant again where a row carried a version that no slot has: once, when that is news; `resend` repeats it.

        Arrays are over rows; `known`: whether the item's width was known before the row; `unknown`: the rows concerned.
        """
        unseen = known[unknown] | (grants[unknown] >= self.newest(items[unknown]))
        rows = unknown[unseen & (self._membership.items.grant_count[items[unknown]] > 0)]
        which, first = np.unique(items[rows], return_index=True)
        for at in np.unique(ats[rows[first]]):
            self.repeat(which[ats[rows[first]] == at], int(at))

    def time_grants(self, items: Integers, versions: Integers) -> None:
        """Measure how long grants are in flight, from rows about to be applied that carry these versions."""
        state = self._membership.items
        newest = state.grant_count[items].astype(np.int64) - 1
        confirming = np.flatnonzero((newest > 0) & (versions == state.slot_high[items, newest]))
        if len(confirming):
            passed = self.passed - state.slot_since[items[confirming], newest[confirming]]
            self.in_flight = min(max(self.in_flight, float(passed.max())), _LONGEST)

    def resend(self, silent: Integers | None = None) -> None:
        """Send unconfirmed grants again, except those that may still be in flight and those of `silent` items."""
        state = self._membership.items
        which = beliefs.unconfirmed(state, self._membership.size, self.passed, self.powers)
        age = self.passed - state.slot_since[which, state.grant_count[which] - 1]
        which = which[age > _MARGIN * self.in_flight]
        if silent is not None:
            which = np.setdiff1d(which, silent)
        newest = state.grant_count[which] - 1
        widths, shrinks = state.slot_width[which, newest], state.slot_shrinks[which, newest]
        versions, confirm = state.slot_high[which, newest], np.ones(len(which), np.bool_)
        self._queue(which, widths, shrinks, state.granted_at[which], versions, confirm)

    def _queue(
        self, which: Integers, widths: Floats, shrinks: Flags, since: Integers, versions: Integers, confirm: Flags
    ) -> None:
        suppress_side, suppress_beyond = np.zeros(len(which), np.int8), np.zeros(len(which))
        self._undelivered.append(
            IssuedGrants(
                which, widths, shrinks, since, versions, confirm, self._units(which), suppress_side, suppress_beyond
            )
        )

    def _units(self, which: Integers) -> Floats:
        """The units of the items' ladders: their uniform widths, 0 for an item in no query."""
        uniform = self._membership.rows().uniform[which]
        return np.where(np.isinf(uniform), 0.0, uniform)

    def drain_grants(self) -> IssuedGrants:
        """Return the grants issued since the last call, the newest per item; `confirm` is set if any of them had it."""
        if not self._undelivered:
            return IssuedGrants._make(np.zeros(0, kind) for kind in _NO_GRANTS)
        grants = IssuedGrants._make(np.concatenate(columns) for columns in zip(*self._undelivered, strict=True))
        self._undelivered = []
        order = np.lexsort((grants.confirm, grants.version, grants.item))
        last = order[np.append(np.diff(grants.item[order]) != 0, True)] if len(order) else order
        return IssuedGrants._make(column[last] for column in grants)
