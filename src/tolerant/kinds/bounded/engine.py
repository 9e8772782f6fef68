"""Applies rows, silences, restarts, arrivals, removals and ends of adjustment periods to bounded queries, in event-time
order.

Rows are sorted by (at, item, sequence), and rows with the same `at` are one transaction. Most rows are plain and go to
the coordinator in runs of thousands. A special transaction (`special_cases`) ends the run and is handled by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tolerant.filters.probing import PendingRows
from tolerant.filters.state import Integers
from tolerant.kernels.snapshots import State
from tolerant.kernels.versions import COUNTER_BITS, version
from tolerant.kinds.bounded.item_lifecycle import ItemLifecycle
from tolerant.kinds.bounded.item_ownership import ItemOwnership
from tolerant.kinds.bounded.late_rows import LateRows
from tolerant.kinds.bounded.lost_rows import LostRows
from tolerant.kinds.bounded.open_queries import OpenQueries
from tolerant.kinds.bounded.outputs import grant_outputs, status
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.kinds.bounded.source_liveness import SourceLiveness
from tolerant.kinds.bounded.special_cases import SpecialCase, SpecialCases, Transaction
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import FORM_REQUEST, GONE, UPDATE
from tolerant.pipeline.row_batches import order_of
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import Stream
from tolerant.transport.rows import TimedRange

LEAP = 1000
"""More adjustment periods than this are skipped rather than ended one by one, if no source is live during them."""


class Engine:
    """One shard's items, sources and queries, moved forward in event time.

    Its parts, each for one concern: `lifecycle` of items, `liveness` of sources, `ownership` of items, open `queries`,
    `sums` that replace items, `late_rows`, `lost_rows`; and `answers`, the buffer of answers to write.
    """

    def __init__(self, stream: Stream, shard: int, epoch: int, seed: int = 0) -> None:
        self._state = state = ShardState.new(stream, shard, epoch, seed)
        self._coordinator, self._shard = state.coordinator, shard
        self.sources, self.registry, self.history = state.sources, state.registry, state.history
        self.counters, self.answers = state.counters, state.answers
        self.conflicts, self.dead_letters = state.conflicts, state.dead_letters
        self.sums = SumSubstitution(state, shard)
        self.queries = OpenQueries(state, self.sums)
        self.lifecycle = ItemLifecycle(state, self.queries, self.sums)
        self.ownership = ItemOwnership(state, self.sums)
        self.liveness = SourceLiveness(state)
        self.late_rows = LateRows(state, self.queries)
        self.lost_rows = LostRows(state, self.lifecycle)
        self._special_cases = self._table_of_special_cases()

    def _table_of_special_cases(self) -> SpecialCases:
        liveness, ownership, lifecycle = self.liveness, self.ownership, self.lifecycle
        return SpecialCases([
            SpecialCase("a source falls silent", liveness.fall_silent, due=liveness.next_silence),
            SpecialCase("a dispute is over", ownership.end_disputes, due=ownership.next_end),
            SpecialCase("a source has restarted", liveness.restart, liveness.is_restart),
            SpecialCase("a silent source is heard again", liveness.revive, liveness.is_of_silent_source),
            SpecialCase("an item is new", lifecycle.arrive, lifecycle.is_unknown),
            SpecialCase("an item belongs to another source", ownership.take_over, ownership.is_foreign),
            SpecialCase("a source requests sums or items", self.sums.apply_requests, self.sums.is_request),
            SpecialCase("a reported history changes bounds", self._bound_by_history, due=self._next_history),
            SpecialCase("an item is removed", lifecycle.select_removals, lifecycle.is_removal),
        ])  # fmt: skip

    # -- time ------------------------------------------------------------------------------------------------------

    def start(self, watermark: int) -> None:
        """Starts event time at the first watermark; earlier adjustment periods are skipped."""
        self._coordinator.grant_log.passed = max((watermark - 1) // self._state.stream.options.boundary, 0)

    def advance(self, rows: Rows, watermark: int) -> bool:
        """Applies the rows up to the watermark and ends the adjustment periods up to it; returns whether any ended."""
        interval, before = self._state.stream.options.boundary, self.counters.boundaries
        bounded = self.liveness.record_lived(self.registry.items())
        while (edge := (self._coordinator.grant_log.passed + 1) * interval) < watermark:
            cut = int(np.searchsorted(rows["at"], edge, "right"))
            self._run(rows[:cut], edge)
            rows = rows[cut:]
            self._end_period(edge, resend=edge + interval >= watermark)
            self._skip_quiet_periods(int(rows["at"][0]) if len(rows) else watermark)
        self._run(rows, watermark)
        self._coordinator.emitter.advance_to(watermark)
        self._coordinator.emitter.emit_for(bounded, watermark)
        self._coordinator.policy.on_settle(watermark)
        passed = self.counters.boundaries > before
        self.lifecycle.remove_sums(self.sums.step(watermark, passed), watermark)
        self.answers.finish()
        return passed

    def _end_period(self, at: int, *, resend: bool) -> None:
        self._coordinator.boundary(at, resend=resend, silent=self.liveness.unheard())
        self.counters.boundaries += 1
        used = self._coordinator.membership.linked() & ~self._coordinator.membership.sums()
        for _, part in self.sums.formed():
            used[part.items] = True
        self.counters.readings += int(used.sum()) * self._state.stream.options.period

    def _skip_quiet_periods(self, until: int) -> None:
        """Skips all periods that end before `until` except the last, if they are many and no source is live then.

        The answers stay stale meanwhile, and the widths at the end can be computed without the skipped periods.
        """
        interval, passed = self._state.stream.options.boundary, self._coordinator.grant_log.passed
        change = self.history.next(until)
        last = ((until if change is None else change) - 1) // interval
        if last - passed > LEAP and not self.sources.heard_of().any():
            self.counters.boundaries += last - 1 - passed
            self._coordinator.skip_periods((last - 1) * interval)

    # -- a run of rows ---------------------------------------------------------------------------------------------

    def _run(self, rows: Rows, until: int) -> None:
        while True:
            rows = self.lifecycle.without_removed(rows)
            at = self._special_cases.next(rows, until)
            if at is None:
                self._apply(rows)
                return
            begin, end = np.searchsorted(rows["at"], at, "left"), np.searchsorted(rows["at"], at, "right")
            self._apply(rows[:begin])
            self._apply_special(Transaction(at, rows[begin:end], rows[end:]))
            rows = rows[end:]

    def _apply(self, rows: Rows) -> None:
        """Applies plain rows."""
        if not len(rows):
            return
        self.sources.hear(rows)
        self.counters.count(np.bincount(rows["kind"]))
        keyed = rows["item"] >= 0
        rows = rows if keyed.all() else rows.compress(keyed)
        if len(rows):
            self.registry.last_at[rows["item"]] = rows["at"]
            self.counters.duplicates += self._coordinator.update_many(
                rows["item"].copy(),
                rows["value"].copy(),
                rows["at"].copy(),
                sequences=rows["sequence"].copy(),
                grants=rows["grant"].copy(),
                counts=rows["kind"] == UPDATE,
                slopes=rows["slope"].copy(),
                sent=rows["heard"].copy(),
                reports=rows["report"],
            )

    def _apply_special(self, transaction: Transaction) -> None:
        self._special_cases.handle(transaction)
        self._apply(transaction.rows)
        self.sources.hear(transaction.removals)
        self.lifecycle.remove(transaction.removals, transaction.at)
        if len(transaction.bounded):
            self._coordinator.emitter.emit_for(transaction.bounded, transaction.at)

    def apply_late(self, rows: Rows, watermark: int) -> None:
        """Applies late rows at once and counts for how long each query was computed without them."""
        self.late_rows.count(rows, watermark)
        moved = rows[order_of(rows)]
        moved["at"] = watermark
        self._run(moved, watermark)
        self.liveness.silence_again(rows, watermark)
        self.answers.finish()

    # -- rows that wait --------------------------------------------------------------------------------------------

    @property
    def any_suppressed(self) -> bool:
        """Whether any item is suppressed."""
        return self._coordinator.membership.any_suppressed

    def probe_for_pending(self, waiting: Rows, watermark: int) -> None:
        """Probes the items whose values will be needed once the waiting rows are applied."""
        rows = waiting[(waiting["item"] >= 0) & (waiting["kind"] != FORM_REQUEST)]
        level = np.where(rows["kind"] == GONE, np.nan, rows["value"])
        self._coordinator.policy.on_pending_rows(
            PendingRows(rows["item"].copy(), rows["sequence"].copy(), level), watermark
        )

    def apply_reported_history(self, rows: Rows, histories: Iterable[list[TimedRange]], watermark: int) -> None:
        """Uses the reported histories of waiting rows: the ranges their items were in until the `at` of the row."""
        for row, history in zip(rows, histories, strict=True):
            if self._will_apply(row):
                self.history.add(int(row["item"]), history, int(row["at"]), watermark)
        bounded = self._apply_histories(watermark)
        if len(bounded):
            self._coordinator.emitter.emit_for(bounded, watermark)
            self.answers.finish()

    def _will_apply(self, row: np.void) -> bool:
        """Whether a waiting row will be applied: its source owns the item, and the row is no repetition."""
        item, source, sequence = int(row["item"]), int(row["source"]), int(row["sequence"])
        current = sequence >> COUNTER_BITS >= self.sources.epoch[source]
        owned = self.registry.present[item] and self.registry.owner[item] == source
        return bool(owned and current and sequence > self._state.sequence(item))

    def _apply_histories(self, at: int) -> Integers:
        """Bounds items by their reported histories from `at` on; returns the items whose bounds changed."""
        bounds = self.history.advance_to(at)
        if len(bounds.item):
            self._coordinator.emitter.advance_to(at)  # earlier ticks are answered from the state before this change
            self._coordinator.evidence.apply_reported_history(bounds.item, bounds.least, bounds.most)
        return bounds.item

    def _bound_by_history(self, transaction: Transaction) -> None:
        transaction.bounded = self._apply_histories(transaction.at)

    def _next_history(self, rows: Rows, until: int) -> int | None:
        return self.history.next(until)

    # -- epochs ----------------------------------------------------------------------------------------------------

    def advance_epoch(self, epoch: int, at: int) -> None:
        """Continues in a later epoch of this pipeline, if it is later."""
        if epoch > self._coordinator.grant_log.epoch:
            self._coordinator.evidence.advance_epoch(epoch, at)

    def invalidate_widths(self, epoch: int, at: int) -> None:
        """Marks all widths as unknown: the pipeline of `epoch` may have granted others."""
        self._coordinator.evidence.invalidate_widths(epoch, at)
        self.answers.finish()

    # -- outputs ---------------------------------------------------------------------------------------------------

    def key(self, item: int) -> str:
        """The key of an item."""
        return self._state.key(item)

    def take_grants(self, topic: str) -> list[Output]:
        """Returns the grants since the last call, and tombstones for those of removed items."""
        log = self._coordinator.grant_log
        issued = log.drain_grants()
        self.counters.grants += len(issued.item)
        removed, names = self.lifecycle.take_removed(), self._coordinator.membership.item_names
        return grant_outputs(topic, issued, names, log.shrink, removed, version(log.epoch, log.issued))

    def status(self, watermark: int) -> Output:
        """Returns the status of the shard."""
        return status(self._state, self.queries, self.sums, self._shard, watermark)

    def believed(self, key: str) -> tuple[float, float]:
        """(centre, width) of an item's filter at the watermark, as the pipeline knows it; infinite if unknown."""
        return self._coordinator.believed(key)

    def value_bounds(self, key: str) -> tuple[float, float]:
        """Bounds of an item's value at the watermark."""
        return self._coordinator.value_bounds(key)

    def has_reported_history(self, key: str) -> bool:
        """Whether the bounds of an item come from its reported history, whatever suppression is in force."""
        return self._coordinator.membership.has_reported_history(key)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything except the statements, for a snapshot. Answers must have been taken before."""
        return State(shard=self._state.state(), groups=self.queries.groups, sums=self.sums.state())

    def load(self, state: State, selects: Mapping[str, AggregateSelect]) -> None:
        """Restores what `state` returned."""
        shard, groups, sums = state.exactly("shard", "groups", "sums")
        self._state.load(shard)
        self.queries.load(groups, selects)
        self.sums.load(sums)
