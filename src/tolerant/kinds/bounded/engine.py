"""Applies rows, silences, restarts, arrivals, departures and ends of adjustment periods to bounded queries, in
event-time order.

Rows are sorted by (at, item, sequence), and rows with the same `at` are one transaction. Most rows are plain and go to
the coordinator in runs of thousands. A special transaction (a source restarts or falls silent; an item appears, is
removed or changes its owner) ends the run and is handled by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.changes import Change
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.probing import PendingRows
from tolerant.filters.state import STALE, AnswerBatch
from tolerant.kernels.versions import COUNTER_BITS
from tolerant.kinds.bounded.counters import Counters
from tolerant.kinds.bounded.item_conflicts import DISPUTED, Disputes
from tolerant.kinds.bounded.item_registry import ItemRegistry
from tolerant.kinds.bounded.reported_history import ReportedHistory
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.pipeline.event_time import in_order
from tolerant.pipeline.intake import BEAT, GONE, HELLO, UPDATE, WISH, DeadRow
from tolerant.pipeline.sources import Sources
from tolerant.queries import Aggregate
from tolerant.sql.membership import Keys, aggregate, instance_name, members, query_and_group
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import SECOND, Stream, is_sum
from tolerant.transport.conflicts import Conflict
from tolerant.transport.rows import TimedRange

Rows = NDArray[np.void]

LEAP = 1000
"""More adjustment periods than this are skipped rather than ended one by one, if no source is live during them."""

_NONE = np.zeros(0, np.int64)


def _first(
    dead: Sequence[DeadRow], names: Sequence[str], find: Callable[[Sequence[str]], NDArray[np.int64]], room: int
) -> Sequence[DeadRow]:
    """The rows whose names are known, or among the first `room` that are not."""
    new = [name for name, place in zip(names, find(names).tolist(), strict=True) if place < 0]
    beyond = set(list(dict.fromkeys(new))[max(room, 0) :])
    return [row for row, name in zip(dead, names, strict=True) if name not in beyond] if beyond else dead


def _keyed(rows: Rows) -> Rows:
    """Selects the rows that have an item; returns the array itself if all do."""
    keyed = rows["item"] >= 0
    return rows if keyed.all() else rows[keyed]


class Engine:
    """One shard's items, sources and queries, moved forward in event time."""

    def __init__(self, stream: Stream, shard: int, epoch: int, seed: int = 0) -> None:
        options = stream.options
        self._stream = stream
        self._lease = options.lease
        self.sources = Sources(options.lease)
        self.coordinator = Coordinator(
            period=options.period,
            shrink=options.shrink,
            policy=options.policy,
            seed=seed,
            shard=shard,
            epoch=epoch,
            interval=options.boundary,
            tick=options.tick,
            probes=True,
        )
        self.selects: dict[str, AggregateSelect] = {}
        self.instances: dict[str, list[str]] = {}
        self.tally = Counters()
        self.dead: list[DeadRow] = []
        self.incomplete = False
        """Whether items were refused because of the stream's limits: its answers do not include them."""
        self._held: list[AnswerBatch] = []  # answers of the current operation
        self._answers: list[AnswerBatch] = []
        self._spoken: list[tuple[list[AnswerBatch], list[str | None]]] = []
        self._forgotten: list[str] = []
        self.recalled = ReportedHistory(options.latency)
        self.roll = ItemRegistry()
        self.disputes = Disputes(options.lease)
        self.forms = SumSubstitution(self.coordinator, self.roll, self.sources, shard, self._hold_answers)

    @property
    def seconds_per_period(self) -> float:
        """Length of an adjustment period, seconds."""
        return self._stream.options.boundary / SECOND

    # -- items -----------------------------------------------------------------------------------------------------

    def items(self) -> NDArray[np.int64]:
        """The items that exist, without the sums that replace items."""
        found = self.roll.items()
        return found[~self.coordinator.membership.sums()[found]]

    def admit(self, keys: list[str]) -> NDArray[np.int64]:
        """Interns keys and returns their indices. A key becomes an item when one of its rows is applied."""
        indices = self.coordinator.membership.intern(keys)
        self.roll.make_room(len(self.coordinator.membership.item_names))
        return indices

    def release(self, waiting: NDArray[np.int64], now: int) -> None:
        """Releases the indices of items that were removed long ago and that no waiting row refers to."""
        self.coordinator.membership.release(self.roll.forgotten(waiting, now, self._lease))

    # -- time ------------------------------------------------------------------------------------------------------

    def advance(self, rows: Rows, watermark: int) -> bool:
        """Applies the rows up to the watermark and ends the adjustment periods up to it; returns whether any ended."""
        interval, before = self._stream.options.boundary, self.tally.boundaries
        proven = self._prove(self.roll.items())
        while (edge := (self.coordinator.grant_log.passed + 1) * interval) < watermark:
            cut = int(np.searchsorted(rows["at"], edge, "right"))
            self._run(rows[:cut], edge)
            rows = rows[cut:]
            last = edge + interval >= watermark
            self.coordinator.boundary(edge, resend=last, silent=self._unheard())
            self.tally.boundaries += 1
            self.tally.readings += self._used_items() * self._stream.options.period
            self._leap(int(rows["at"][0]) if len(rows) else watermark)
        self._run(rows, watermark)
        self.coordinator.emitter.advance_to(watermark)
        self.coordinator.emitter.emit_for(proven, watermark)
        self.coordinator.policy.on_settle(watermark)
        passed = self.tally.boundaries > before
        self._leave_out(self.forms.step(watermark, passed), watermark)
        self._keep_answers()
        return passed

    def _used_items(self) -> int:
        """Counts the items that some query needs, each once, including those that a sum replaces."""
        used = self.coordinator.membership.linked() & ~self.coordinator.membership.sums()
        for _, part in self.forms.formed():
            used[part.items] = True
        return int(used.sum())

    def _leap(self, until: int) -> None:
        """Skips all periods that end before `until` except the last, if they are many and no source is live then.

        The answers stay stale meanwhile, and the widths at the end can be computed without the skipped periods.
        """
        interval, grant_log = self._stream.options.boundary, self.coordinator.grant_log
        told = self.recalled.next(until)
        last = (min(until, until if told is None else told) - 1) // interval
        if last - grant_log.passed > LEAP and not self.sources.heard_of().any():
            self.tally.boundaries += last - 1 - grant_log.passed
            self.coordinator.skip_periods((last - 1) * interval)

    def _prove(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Advances filters up to the time at which their sources are known to have been alive; returns the items whose
        bounds change by that. An item that its source has not sent again since its restart keeps its filter.
        """
        owners = self.roll.owner[items]
        said = self.coordinator.membership.sequences(items) >> COUNTER_BITS >= self.sources.epoch[owners]
        return self.coordinator.evidence.record_liveness(items[said], self.sources.lived[owners[said]])

    def _leave_out(self, sums: NDArray[np.int64], at: int) -> None:
        """Removes sums that no query needs or no source sends; a later row of such a sum adds it again."""
        if len(sums):
            sequences = self.coordinator.membership.sequences(sums).copy()
            self._forgotten.extend(str(self.coordinator.membership.item_names[item]) for item in sums)
            self.coordinator.apply(Change(remove=sums), at)
            self.coordinator.membership.set_sequences(sums, sequences)
            self.roll.depart(sums, at)

    def _unheard(self) -> NDArray[np.int64]:
        """The items of silent sources and the disputed items: they are not probed."""
        silent = (
            np.flatnonzero(self.roll.present & self.sources.silent[self.roll.owner]) if self.sources.names else _NONE
        )
        return np.append(silent, np.array(self.disputes.items(), np.int64))

    def start(self, watermark: int) -> None:
        """Starts event time at the first watermark; earlier adjustment periods are skipped."""
        self.coordinator.grant_log.passed = max((watermark - 1) // self._stream.options.boundary, 0)

    def late(self, rows: Rows, watermark: int) -> None:
        """Applies late rows at once and counts for how long each query was computed without them."""
        self._count_late(rows, watermark)
        for at, items in self._missed(rows):
            for query in {name for name, _ in map(query_and_group, self._queries_of(items))}:
                self.tally.lose(query, at, watermark)
        moved = rows[in_order(rows)]
        moved["at"] = watermark
        self._run(moved, watermark)
        for source in np.unique(rows["source"]):
            if self.sources.heard[source] + self._lease < watermark:
                self.sources.silent[source] = True
                self.coordinator.evidence.mark_stale(self.roll.of_source(int(source)), True, watermark)
        self._keep_answers()

    def _count_late(self, rows: Rows, watermark: int) -> None:
        """Counts late rows by source, with the longest delay of each source that is certain."""
        self.tally.late += len(rows)
        delays = watermark + self._stream.options.latency - rows["at"]
        for source in np.unique(rows["source"]).tolist():
            mine = rows["source"] == source
            self.tally.count_late(self.sources.names[source], int(mine.sum()), int(delays[mine].max()))

    def _missed(self, rows: Rows) -> list[tuple[int, NDArray[np.int64]]]:
        """(since, items) for which late rows were missing; a late heartbeat or hello affects all items of a source."""
        whole = (rows["kind"] == BEAT) | (rows["kind"] == HELLO)
        found = []
        for source in np.unique(rows["source"][whole]):
            first = int(rows["at"][whole & (rows["source"] == source)].min())
            found.append((first, self.roll.of_source(int(source))))
        items, first_rows = np.unique(rows["item"][~whole], return_index=True)
        found.extend((int(rows["at"][~whole][row]), items[k : k + 1]) for k, row in enumerate(first_rows))
        return found

    def probe_for_pending(self, waiting: Rows, watermark: int) -> None:
        """Probes the items whose values will be needed once the waiting rows are applied."""
        rows = waiting[(waiting["item"] >= 0) & (waiting["kind"] != WISH)]
        level = np.where(rows["kind"] == GONE, np.nan, rows["value"])
        self.coordinator.policy.on_pending_rows(
            PendingRows(rows["item"].copy(), rows["sequence"].copy(), level), watermark
        )

    def recall(self, rows: Rows, ways: Iterable[list[TimedRange]], watermark: int) -> None:
        """Uses the reported histories of waiting rows: the ranges their items were in until the `at` of the row."""
        for row, way in zip(rows, ways, strict=True):
            if self._is_news(row):
                self.recalled.hear(int(row["item"]), way, int(row["at"]), watermark)
        told = self._recall(watermark)
        if len(told):
            self.coordinator.emitter.emit_for(told, watermark)
            self._keep_answers()

    def _is_news(self, row: np.void) -> bool:
        """Whether a waiting row will be applied: its source owns the item, and the row is no repetition."""
        item, source, sequence = int(row["item"]), int(row["source"]), int(row["sequence"])
        applied = int(self.coordinator.membership.sequences(np.array([item]))[0])
        current = sequence >> COUNTER_BITS >= self.sources.epoch[source]
        return bool(self.roll.present[item] and self.roll.owner[item] == source and current and sequence > applied)

    def _recall(self, at: int) -> NDArray[np.int64]:
        """Bounds items by their reported histories from `at` on; returns the items whose bounds changed."""
        told = self.recalled.reach(at)
        if len(told.item):
            self.coordinator.emitter.advance_to(at)  # ticks before `at` are answered from the state before this change
            self.coordinator.evidence.apply_reported_history(told.item, told.least, told.most)
        return told.item

    def invalidate_widths(self, epoch: int, at: int) -> None:
        """Marks all widths as unknown: the pipeline of `epoch` may have granted others."""
        self.coordinator.evidence.invalidate_widths(epoch, at)
        self._keep_answers()

    def expect(self, dead: Sequence[DeadRow], at: int) -> None:
        """Adds the unknown items of unusable rows: they exist, and their queries are stale until one of their rows can
        be used."""
        dead = self._within_limits(dead, at)
        indices = self.admit([row.key for row in dead]).tolist()
        sources = self.sources.enlist([row.source for row in dead]).tolist()
        fresh: dict[int, int] = {}
        for row, item, source in zip(dead, indices, sources, strict=True):
            repeated = self.roll.gone_at[item] > 0 and self.roll.owner[item] == source
            repeated = repeated and row.sequence <= self.coordinator.membership.sequences(np.array([item]))[0]
            if not self.roll.present[item] and not repeated:
                fresh[item] = source
        if fresh:
            items, owners = np.array(list(fresh)), np.array(list(fresh.values()))
            self._appear(items, owners, at)
            self.coordinator.evidence.mark_stale(items, True, at)

    def _within_limits(self, dead: Sequence[DeadRow], at: int) -> Sequence[DeadRow]:
        """Selects the rows whose items and sources are within the stream's limits. If any row is left out, all answers
        are stale from now on."""
        limits = self._stream.options.limits
        kept = _first(
            dead,
            [row.key for row in dead],
            self.coordinator.membership.find,
            limits.items - len(self.coordinator.membership),
        )
        kept = _first(kept, [row.source for row in kept], self.sources.find, limits.sources - len(self.sources))
        if len(kept) < len(dead) and not self.incomplete:
            self.incomplete = True
            self.coordinator.emitter.emit_all(at)
            self._keep_answers()
        return kept

    def lose(self, dead: Sequence[DeadRow], at: int) -> None:
        """Marks the filters of items with unusable rows as unknown until a row with a later sequence confirms them."""
        lost: dict[int, int] = {}
        for row, item in zip(dead, self.coordinator.membership.find([row.key for row in dead]).tolist(), strict=True):
            if item >= 0:
                # A row whose sequence cannot be read counts as later than all rows read from its source.
                number = row.sequence if row.sequence > 0 else int(self.sources.read[self.roll.owner[item]])
                lost[item] = max(lost.get(item, 0), number)
        if lost:
            self.recalled.forget(lost, at)  # the row that reported it may be among them
            self.coordinator.evidence.mark_rows_lost(np.array(list(lost)), np.array(list(lost.values())), at)
            gone = self.coordinator.membership.find([row.key for row in dead if row.kind == "gone" and row.key])
            gone = gone[gone >= 0]
            self.coordinator.evidence.mark_stale(gone[self.roll.present[gone]], True, at)  # they may not exist any more
            self._keep_answers()

    def skip(self, rows: Sequence[DeadRow], at: int) -> None:
        """Skips rows that may have been usable: their items become unknown, and older rows no longer apply."""
        told = [row for row in rows if row.kind in ("update", "hello", "ack") or self._is_awaited(row.key)]
        self.expect(told, at)
        self.lose(rows, at)
        for row in rows:
            item = self.coordinator.membership.find([row.key])
            if item[0] >= 0 and self.sources.names[self.roll.owner[item[0]]] == row.source:
                newest = np.maximum(self.coordinator.membership.sequences(item), row.sequence)
                self.coordinator.membership.set_sequences(item, newest)

    def _is_awaited(self, key: str) -> bool:
        """Whether an item has waiting rows and none of its rows has been applied yet."""
        item = int(self.coordinator.membership.find([key])[0])
        return item >= 0 and not self.roll.present[item] and not self.roll.gone_at[item]

    def lose_all(self, at: int) -> None:
        """Marks all items as stale and their filters as unknown: the lost rows may be of any item, or its removal."""
        items = self.roll.items()
        if len(items):
            self.recalled.forget(items.tolist(), at)
            self.coordinator.evidence.mark_rows_lost(items, self.sources.read[self.roll.owner[items]], at)
            self.coordinator.evidence.mark_stale(items, True, at)
            self._keep_answers()

    def missed_starts(self, starts: Mapping[str, int], at: int) -> None:
        """Records restarts that only lost rows show: `starts` maps a source to the newest epoch of its lost rows. If
        that is a new epoch, the items of the source are stale until its next rows.
        """
        for name, epoch in starts.items():
            source = int(self.sources.enlist([name])[0])
            if epoch > self.sources.epoch[source]:
                self.sources.restart(source, epoch)
                self._restarted(source, epoch, at)
        self._keep_answers()

    # -- a run of rows ---------------------------------------------------------------------------------------------

    def _run(self, rows: Rows, until: int) -> None:
        while True:
            rows = self._drop_stale_rows(rows)
            at = self._next_special(rows, until)
            if at is None:
                self._plain(rows)
                return
            begin, end = np.searchsorted(rows["at"], at, "left"), np.searchsorted(rows["at"], at, "right")
            self._plain(rows[:begin])
            self._special(rows[begin:end], rows[end:], at)
            rows = rows[end:]

    def _drop_stale_rows(self, rows: Rows) -> Rows:
        """Drops rows of removed items that are older than the removal."""
        item = rows["item"]
        keyed = item >= 0
        stale = keyed & ~self.roll.present[item] & (self.roll.gone_at[item] > 0)
        stale &= self.roll.owner[item] == rows["source"]
        stale &= rows["sequence"] <= self.coordinator.membership.sequences(item)
        self.tally.duplicates += int(stale.sum())
        return rows[~stale] if stale.any() else rows

    def _next_special(self, rows: Rows, until: int) -> int | None:
        """The time of the first transaction that is not just values of known items from live sources."""
        source, item = rows["source"], rows["item"]
        keyed = item >= 0
        special = (rows["kind"] == GONE) | (rows["kind"] == WISH) | self.sources.silent[source]
        special |= (rows["sequence"] >> COUNTER_BITS) > self.sources.epoch[source]
        special |= keyed & ~self.roll.present[item]
        special |= keyed & (self.roll.owner[item] != source)
        first = int(rows["at"][np.argmax(special)]) if special.any() else None
        silence = self.sources.next_silence(rows, until)
        if silence is not None:  # with late rows it may be in the past; it takes effect now
            silence = max(silence, self.coordinator.emitter.at)
        told, settled = self.recalled.next(until), self.disputes.next_end()
        if settled is not None:
            settled = max(settled, self.coordinator.emitter.at) if settled <= until else None
        return min((at for at in (first, silence, told, settled) if at is not None), default=None)

    def _plain(self, rows: Rows) -> None:
        if not len(rows):
            return
        self.sources.hear(rows)
        self.tally.count(np.bincount(rows["kind"]))
        keyed = _keyed(rows)
        if len(keyed):
            self.roll.last_at[keyed["item"]] = keyed["at"]
            self.tally.duplicates += self.coordinator.update_many(
                keyed["item"].copy(),
                keyed["value"].copy(),
                keyed["at"].copy(),
                sequences=keyed["sequence"].copy(),
                grants=keyed["grant"].copy(),
                counts=keyed["kind"] == UPDATE,
                slopes=keyed["slope"].copy(),
                sent=keyed["heard"].copy(),
                reports=keyed["report"],
            )

    def _special(self, rows: Rows, later: Rows, at: int) -> None:
        self._silences(at)
        self._resolve(at)
        self._restarts(rows, at)
        self._revivals(rows, at)
        self._arrivals(rows, later, at)
        rows = self._wishes(self._handovers(rows, at))
        told = self._recall(at)
        departures = self._departures(rows)
        self._plain(rows[rows["kind"] != GONE])
        self.sources.hear(departures)
        self._depart(departures, at)
        if len(told):
            self.coordinator.emitter.emit_for(told, at)

    def _wishes(self, rows: Rows) -> Rows:
        """Applies the requests of sources to send sums or items; returns the other rows."""
        wishes = rows[rows["kind"] == WISH]
        if not len(wishes):
            return rows
        self.sources.hear(wishes)
        for row in wishes:
            item = np.array([row["item"]])
            if self.roll.present[row["item"]] and row["sequence"] > self.coordinator.membership.sequences(item)[0]:
                self.tally.form_request += 1
                self.coordinator.membership.set_sequences(item, np.array([row["sequence"]]))
                self.forms.request(int(row["item"]), bool(row["value"]))
            else:
                self.tally.duplicates += 1
        return rows[rows["kind"] != WISH]

    def _silences(self, at: int) -> None:
        for source in self.sources.fallen_silent(at):
            self.sources.silent[source] = True
            self.coordinator.evidence.mark_stale(self.roll.of_source(int(source)), True, at)

    def _restarts(self, rows: Rows, at: int) -> None:
        epochs = rows["sequence"] >> COUNTER_BITS
        for source in np.unique(rows["source"][epochs > self.sources.epoch[rows["source"]]]):
            epoch = int(epochs[rows["source"] == source].max())
            self.sources.restart(int(source), epoch)
            self._restarted(int(source), epoch, at)

    def _restarted(self, source: int, epoch: int, at: int) -> None:
        items = self.roll.of_source(source)
        self.recalled.forget(items.tolist(), at)  # its clock may have been set back since it reported this
        self.coordinator.evidence.mark_stale(self._undisputed(items), True, at, epoch=epoch)

    def _revivals(self, rows: Rows, at: int) -> None:
        for source in np.unique(rows["source"]):
            if self.sources.silent[source] and int(rows["heard"][rows["source"] == source].max()) + self._lease >= at:
                self.sources.silent[source] = False
                items = self._undisputed(self.roll.of_source(int(source)))
                current = self.coordinator.membership.sequences(items) >> COUNTER_BITS >= self.sources.epoch[source]
                self.coordinator.evidence.mark_stale(items[current], False, at)

    def _arrivals(self, rows: Rows, later: Rows, at: int) -> None:
        """Adds the new items of the whole run at once. Their queries settle only after a grant is confirmed, so no
        answer is settled before the first rows of the items."""
        if not (self._unknown_items(rows)).any():
            return
        run = np.concatenate([rows, later])
        fresh = run[self._unknown_items(run)]
        items, first = np.unique(fresh["item"], return_index=True)
        self._appear(items, fresh["source"][first], at)

    def _appear(self, items: NDArray[np.int64], owners: NDArray[np.int64], at: int) -> None:
        self.roll.appear(items, owners)
        self.coordinator.membership.restart_sequences(items, self.sources.epoch[owners])
        self._join(items, at)

    def _unknown_items(self, rows: Rows) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (rows["item"] >= 0) & ~self.roll.present[rows["item"]]
        return found & (rows["kind"] != GONE) & (rows["kind"] != WISH)

    def _handovers(self, rows: Rows, at: int) -> Rows:
        """Moves an item to another source that sends a hello for it, later than all its rows so far. The item is
        disputed while its former owner is live or sends later rows of it. Returns the rows without the refused ones.
        """
        keyed = rows["item"] >= 0
        foreign = keyed & self.roll.present[rows["item"]] & (self.roll.owner[rows["item"]] != rows["source"])
        if not foreign.any():
            return rows
        taken = foreign & (rows["kind"] == HELLO) & (rows["at"] > self.roll.last_at[rows["item"]])
        items, sources = rows["item"][taken], rows["source"][taken]
        if len(items):
            self.forms.handed_over(items, at)
            self.recalled.forget(items.tolist(), at)
        before = self.roll.owner[items]
        self.roll.owner[items] = sources
        self.coordinator.membership.restart_sequences(items, self.sources.epoch[sources])
        for item, owner, source in zip(items.tolist(), before.tolist(), sources.tolist(), strict=True):
            if not self.sources.silent[owner] or item in self.disputes:
                self._dispute(item, source, owner, at)
        # Also rows of the former owner with the same `at`: it is unknown which of the two values is newer.
        refused = keyed & self.roll.present[rows["item"]] & (self.roll.owner[rows["item"]] != rows["source"])
        self.dead.extend(self._refusal(row) for row in rows[refused])
        for row in rows[refused & (rows["heard"] + self._lease >= at)]:
            item, other = int(row["item"]), int(row["source"])
            if row["kind"] != HELLO and self.disputes.is_told(item, self.sources.names[other]):
                self.disputes.prolong(item, at)
            else:  # a source whose hello is refused still claims the item
                self._dispute(item, int(self.roll.owner[item]), other, at)
        return rows[~refused]

    def _dispute(self, item: int, owner: int, other: int, at: int) -> None:
        """Marks an item that two sources claim as stale until one has sent no row of it for a lease."""
        name, names = str(self.coordinator.membership.item_names[item]), self.sources.names
        self.disputes.begin(item, Conflict(name, names[owner], names[other], at), at)
        self.coordinator.evidence.mark_stale(np.array([item]), True, at, epoch=DISPUTED)

    def _undisputed(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([item for item in items.tolist() if item not in self.disputes], np.int64)

    def _resolve(self, at: int) -> None:
        """Ends the disputes that are over at `at`; their items are as fresh as the other items of their owners."""
        items = self.disputes.over(at)
        self.disputes.end(items, at)
        for item in items:
            owner, one = int(self.roll.owner[item]), np.array([item])
            epoch = int(self.sources.epoch[owner])
            said = int(self.coordinator.membership.sequences(one)[0]) >> COUNTER_BITS >= epoch
            self.coordinator.evidence.mark_stale(one, bool(self.sources.silent[owner]) or not said, at, epoch=epoch)

    def _refusal(self, row: np.void) -> DeadRow:
        key = str(self.coordinator.membership.item_names[row["item"]])
        owner = self.sources.names[self.roll.owner[row["item"]]]
        return DeadRow(
            f"the item belongs to source {owner!r}: another source must say hello with it first",
            key=key,
            at=int(row["at"]),
            source=self.sources.names[row["source"]],
            sequence=int(row["sequence"]),
            value=float(row["value"]),
        )

    def _departures(self, rows: Rows) -> Rows:
        gone = rows[rows["kind"] == GONE]
        real = self.roll.present[gone["item"]] & (
            gone["sequence"] > self.coordinator.membership.sequences(gone["item"])
        )
        self.tally.duplicates += int((~real).sum())
        self.roll.discard(gone["item"][~real], int(gone["at"][0]) if len(gone) else 0)
        return gone[real]

    def _depart(self, gone: Rows, at: int) -> None:
        if not len(gone):
            return
        items = gone["item"].copy()
        self.tally.gone += len(items)
        self._forgotten.extend(str(self.coordinator.membership.item_names[item]) for item in items)
        self.forms.departing(items)
        self.disputes.end(items.tolist(), at)
        self.coordinator.apply(Change(remove=items), at)
        self.coordinator.membership.set_sequences(items, gone["sequence"].copy())
        self.roll.depart(items, at)

    # -- queries ---------------------------------------------------------------------------------------------------

    def open(self, selects: Mapping[str, AggregateSelect], at: int) -> None:
        """Opens queries at `at`."""
        names = self.coordinator.membership.item_names
        texts = [str(names[item]) for item in self.items()]
        keys = Keys(self._stream, texts)
        opened = []
        for name, select in selects.items():
            self.selects[name] = select
            groups = members(select, keys)
            if not select.group_by and self._stream.options.shards == 1:
                groups.setdefault("", {})  # of several shards, the one that has the items answers
            self.instances[name] = list(groups)
            for group, weights in groups.items():
                opened.append(aggregate(name, group, select, {texts[i]: weight for i, weight in weights.items()}))
        self.coordinator.apply(Change(add=opened), at)
        self.forms.opened()
        self._keep_answers()

    def alter(self, name: str, select: AggregateSelect, at: int) -> None:
        """Changes the tolerance of a query."""
        self.selects[name] = select
        self.coordinator.apply(
            Change(alter={instance_name(name, group): select.within for group in self.instances[name]}), at
        )
        self._keep_answers()

    def drop(self, name: str, at: int) -> None:
        """Drops a query."""
        self._speak()
        del self.selects[name]
        dropped = [instance_name(name, group) for group in self.instances.pop(name)]
        self.forms.dropping(dropped)
        self.coordinator.apply(Change(drop=dropped), at)
        self.tally.forget(name)
        self._keep_answers()

    def _join(self, items: NDArray[np.int64], at: int) -> None:
        names = [str(self.coordinator.membership.item_names[item]) for item in items]
        sums = np.fromiter(map(is_sum, names), np.bool_, len(names))
        if sums.any():
            self.coordinator.membership.mark_sums(items[sums])
        self.forms.appeared(items)
        keys = Keys(self._stream, [name for name in names if not is_sum(name)])
        everybody, items = items, items[~sums]
        joined: dict[str, dict[int, float]] = {}
        opened: list[Aggregate] = []
        for name, select in self.selects.items():
            for group, weights in members(select, keys).items():
                if group not in self.instances[name]:
                    self.instances[name].append(group)
                    opened.append(aggregate(name, group, select, {}))
                joined[instance_name(name, group)] = {int(items[index]): w for index, w in weights.items()}
        self.coordinator.apply(Change(add=opened, join=joined, joining=everybody), at)

    def _queries_of(self, items: NDArray[np.int64]) -> list[str]:
        names = self.coordinator.membership.query_names()
        found = (str(names[query]) for query in self.coordinator.membership.queries_of(items))
        return [name for name in found if not is_sum(name)]

    # -- outputs ---------------------------------------------------------------------------------------------------

    def take_answers(self) -> list[tuple[list[AnswerBatch], list[str | None]]]:
        """Returns the answers since the last call, in order, in parts, each with the names of its query indices."""
        self._speak()
        found, self._spoken = self._spoken, []
        return found

    @property
    def parts(self) -> int:
        """Number of parts that `take_answers` would return, without the answers since a query was last dropped."""
        return len(self._spoken)

    def take_forgotten(self) -> list[str]:
        """Returns the items removed since the last call."""
        found, self._forgotten = self._forgotten, []
        return found

    def _speak(self) -> None:
        """Attaches query names to the answers so far: an index may belong to another query after a drop."""
        if self._answers:
            self._spoken.append((self._answers, self.coordinator.membership.query_names()))
            self._answers = []

    def _keep_answers(self) -> None:
        """Collects the coordinator's answers; of several answers of a query with the same `at` keeps the last."""
        self._hold_answers()
        if not self._held:
            return
        said = AnswerBatch._make(np.concatenate(columns) for columns in zip(*self._held, strict=True))
        self._held = []
        order = np.lexsort((said.at, said.query))
        repeated = np.zeros(len(order), np.bool_)
        query, at = said.query[order], said.at[order]
        repeated[order[:-1]] = (query[1:] == query[:-1]) & (at[1:] == at[:-1])
        self._answers.append(AnswerBatch._make(column[~repeated] for column in said))

    def _hold_answers(self) -> None:
        """Collects the coordinator's answers except those of hidden queries; called before a hidden query is added or
        dropped.
        """
        parts = self.coordinator.emitter.drain_answers()
        if not parts:
            return
        said = AnswerBatch._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        if self.forms.sets:
            shown = ~self.forms.hidden_queries()[said.query]
            said = AnswerBatch._make(column[shown] for column in said)
        if self.incomplete:
            said = said._replace(flags=said.flags | STALE)
        if len(said.query):
            self._held.append(said)

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything except the statements, as arrays and plain values. Answers must have been taken before."""
        arrays, coordinator = self.coordinator.state()
        more, sources = self.sources.state()
        size = len(self.coordinator.membership.item_names)
        arrays |= more | self.roll.state(size)
        told = [self.forms.state(), self.recalled.state(), self.incomplete, self.disputes.state()]
        values = [coordinator, sources, vars(self.tally), self.instances, *told]
        return arrays, values

    def load(self, arrays: dict[str, NDArray[Any]], values: Any, selects: Mapping[str, AggregateSelect]) -> None:
        """Restores what `state` returned."""
        coordinator, sources, tally, instances, forms, recalled, self.incomplete, disputes = values
        self.coordinator.load(arrays, coordinator)
        self.sources.load(arrays, sources)
        self.roll.load(arrays)
        self.tally = Counters(**tally)
        self.instances = instances
        self.selects = {name: selects[name] for name in instances}
        self.forms.load(forms)
        self.recalled.load(recalled)
        self.disputes.load(disputes)
