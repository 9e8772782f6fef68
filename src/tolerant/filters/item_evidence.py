"""Applies facts about items that do not come with their rows.

These are liveness and staleness, rows that were lost, the reported history of suppressed items, and grants of another
pipeline.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters import bounds
from tolerant.filters.answer_emitter import AnswerEmitter
from tolerant.filters.grant_log import GrantLog
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import Floats, Integers
from tolerant.kernels.versions import version


class ItemEvidence:
    """Updates a membership's items by such facts, and has the answers that change emitted."""

    def __init__(self, membership: Membership, grant_log: GrantLog, emitter: AnswerEmitter) -> None:
        self._membership, self._grant_log, self._emitter = membership, grant_log, emitter

    def record_liveness(self, items: Integers, alive_until: Integers) -> Integers:
        """Set the event times up to which the items' sources are known to be alive.

        Returns the items whose bounds change by that; the caller emits their answers.
        """
        state, grant_log, tick = self._membership.items, self._grant_log, self._emitter.tick
        ticks = alive_until // self._emitter.length
        periods = (alive_until - 1) // (grant_log.interval or 1)  # `periods_passed` of an array
        old_ticks, old_periods = state.alive_until[items], state.alive_periods[items]
        state.alive_until[items], state.alive_periods[items] = ticks, periods
        moved = (np.minimum(ticks, tick) != np.minimum(old_ticks, tick)) & (state.slope[items] != 0.0)
        passed = grant_log.passed
        shrunk = (np.minimum(periods, passed) != np.minimum(old_periods, passed)) & (grant_log.shrink > 0)
        changed = items[moved | shrunk]
        if shrunk.any():
            grant_log.refresh()
            self._membership.queries.dirty[self._membership.alive()] = True
        elif len(changed):
            self._membership.queries.dirty[self._membership.queries_of(changed)] = True
        return changed

    def apply_reported_history(self, items: Integers, low: Floats, high: Floats) -> None:
        """Set the ranges that suppressed items have reported, from now on; infinite: the report has expired.

        The caller emits the answers that change.
        """
        state = self._membership.items
        suppressed = state.suppress_side[items] != 0
        state.reported_low[items] = np.where(suppressed, low, -np.inf)
        state.reported_high[items] = np.where(suppressed, high, np.inf)
        self._membership.queries.dirty[self._membership.queries_of(items)] = True

    def mark_rows_lost(self, items: Integers, sequences: Integers, at: int) -> None:
        """Rows of these items could not be used: their widths are unknown until a row of later sequence confirms
        them.
        """
        self._emitter.advance_to(at)
        state = self._membership.items
        np.maximum.at(state.lost_sequence, items, sequences)
        state.known[items] = False
        state.reported_low[items], state.reported_high[items] = -np.inf, np.inf  # a lost row may have ended the report
        self._emitter.refresh(at)

    def mark_stale(self, items: Integers, stale: bool, at: int, epoch: int | None = None) -> None:
        """Mark items stale or fresh, as their source is silent or heard again.

        epoch: that of a restart of the source; only rows of this epoch make the items fresh again.
        """
        self._emitter.advance_to(at)
        if epoch is not None:
            self._membership.items.epoch[items] = epoch
        bounds.mark_stale(items, stale, *self._membership.arrays())
        self._emitter.emit(self._membership.queries_of(items), at)

    def invalidate_widths(self, foreign_epoch: int, at: int) -> None:
        """Another pipeline grants under `foreign_epoch`: all widths are unknown until confirmed under a newer epoch."""
        self._emitter.advance_to(at)
        state, grant_log = self._membership.items, self._grant_log
        state.known[:] = False
        grant_log.least_version = max(grant_log.least_version, version(foreign_epoch, 0))
        which = np.array(list(self._membership.index.values()), np.int64)
        older = which[(state.grant_count[which] > 0) & (grant_log.newest(which) < grant_log.least_version)]
        if len(older) and grant_log.epoch > foreign_epoch:
            grant_log.repeat(older, at)
        self._emitter.refresh(at)

    def advance_epoch(self, epoch: int, at: int) -> None:
        """Number grants under a newer epoch; grants unknown widths again under it."""
        self._grant_log.epoch = epoch
        state = self._membership.items
        which = np.flatnonzero((state.grant_count > 0) & ~state.known)
        if len(which):
            self._grant_log.repeat(which, at)
