"""Collects the answers that change as rows are applied and time passes."""

from __future__ import annotations

from tolerant.filters import bounds
from tolerant.filters.grant_log import GrantLog
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import AnswerBatch, Integers
from tolerant.kernels.snapshots import Fields, Restorable, State


class AnswerEmitter(Restorable):
    """Keeps the bounds of a membership's queries up to date, and collects their answers until `drain_answers`.

    `tick`: the tick up to which predicted centres have moved; `length`: of a tick, in the unit of event time; `at`: the
    newest event time.
    """

    FIELDS = Fields("at", "tick")

    def __init__(self, membership: Membership, grant_log: GrantLog, length: int) -> None:
        self._membership, self._grant_log = membership, grant_log
        self.length = int(length)
        self.tick = 0
        self.at = 0
        self._batches: list[AnswerBatch] = []

    def advance_to(self, at: int) -> None:
        """Move predicted centres tick by tick up to `at`, and emit the answers that change."""
        until = at // self.length
        if until > self.tick:
            items, queries, links = self._membership.arrays()
            batch = bounds.empty_batch((until - self.tick) * int((queries.moving > 0).sum()))
            self.append(batch, bounds.pass_ticks(self.tick, until, self.length, items, queries, links, batch, 0))
            self.tick = until

    def refresh(self, at: int) -> None:
        """Recompute believed widths, sums and answers of all queries."""
        self.at = max(self.at, at)
        self._grant_log.refresh()
        alive = self._membership.alive()
        bounds.rescan(alive, self.tick, *self._membership.arrays())
        self.emit(alive, at)

    def emit(self, queries: Integers, at: int) -> None:
        """Emit the answers of those of these queries that changed."""
        batch = bounds.empty_batch(len(queries))
        self.append(batch, bounds.emit(queries, at, self.tick, *self._membership.arrays(), batch, 0))

    def emit_for(self, items: Integers, at: int) -> None:
        """Advance to `at` and emit the changed answers of queries that have one of these items."""
        self.advance_to(at)
        self.emit(self._membership.queries_of(items), at)

    def emit_all(self, at: int) -> None:
        """Advance to `at` and emit every answer, changed or not."""
        self.advance_to(at)
        alive = self._membership.alive()
        self._membership.queries.emitted_flags[alive] = -1
        self.emit(alive, at)

    def append(self, batch: AnswerBatch, count: int) -> None:
        """Collect the first `count` answers of a batch."""
        if count:
            self._batches.append(AnswerBatch._make(column[:count] for column in batch))

    def skip_to(self, at: int) -> None:
        """Advance to `at` without emitting the answers in between."""
        queries = self._membership.queries
        queries.dirty[queries.moving > 0] = True
        self.tick = max(self.tick, at // self.length)

    def drain_answers(self) -> list[AnswerBatch]:
        """Return the answers since the last call, in order; `Membership.query_names` names their query indices."""
        batches, self._batches = self._batches, []
        return batches

    def load(self, state: State) -> None:
        """Restore what `state` returned, before which answers must have been drained."""
        super().load(state)
        self._batches = []
