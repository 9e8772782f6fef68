"""Hosts bounded aggregates over a stream: reads rows and statements from the log, writes answers, grants, replies and
status.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Schema, State
from tolerant.kinds.bounded.engine import Engine
from tolerant.kinds.bounded.outputs import answer_outputs
from tolerant.kinds.bounded.shard_state import Rows
from tolerant.pipeline.answers import tombstones
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import KINDS, Arrived, DeadRow, Intake, capped
from tolerant.pipeline.migrations import without_periods
from tolerant.pipeline.quarantined_rows import foreign_epoch, query_row, skipped_rows, source_epochs, why
from tolerant.pipeline.row_batches import ArrayBatches
from tolerant.pipeline.splitter import shard_of
from tolerant.pipeline.stream_shard import StreamShard
from tolerant.sql.statements import AggregateSelect, AlterQuery, CreateQuery, Drop, Statement
from tolerant.streams import Stream
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import conflicts_topic, grants_topic, sums_topic

_NO_ITEMS = np.zeros(0, np.int64)


class BoundedShard(StreamShard):
    """One shard of a stream's pipeline (`docs/design/pipeline.md` §3, §4).

    `epoch` and `checkpoint` are those of a start from an empty checkpoint; a clock row that names this checkpoint
    brings a later epoch.
    """

    SCHEMA = Schema("bounded", 2, {1: without_periods})
    DEFERS_STATEMENTS = True

    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str, partitions: int = 1) -> None:
        super().__init__(stream, shard, (), checkpoint=checkpoint, partitions=partitions)
        self._engine = Engine(stream, shard, epoch)
        self._dead = self._engine.dead_letters
        self._reported = 0
        self._waiting = EventTimeBuffer(ArrayBatches(), self._event_time, stream.options.lease)
        items = self._engine.lifecycle
        self._intake = Intake(stream, items.find, items.intern, self._engine.sources, items.__len__)
        self._opening: dict[str, AggregateSelect] = {}
        self._tombstones: list[Output] = []  # of the current answers of queries dropped since outputs were last drained

    def _count(self, what: str, number: int = 1) -> None:
        self._engine.counters.add(what, number)

    @property
    def _ended_periods(self) -> int:
        return self._engine.counters.boundaries

    # -- rows ------------------------------------------------------------------------------------------------------

    def _read_updates(self, entry: Entry) -> None:
        self._count("bytes", len(entry.payload))
        self._take_arrived(self._intake.read(entry.payload), entry.partition)

    def _take_arrived(self, arrived: Arrived, partition: int) -> None:
        self._add_dead_letters(arrived.dead)
        begin = 0
        for clock, checkpoint in arrived.checkpoints.items():
            row = arrived.rows[clock]
            self._take_rows(arrived, begin, clock, partition)
            self._take_fenced_clock_row(int(row["at"]), int(row["sequence"]), checkpoint, partition)
            begin = clock + 1
        self._take_rows(arrived, begin, len(arrived.rows), partition)

    def _take_rows(self, arrived: Arrived, begin: int, end: int, partition: int) -> None:
        """Takes rows begin … end − 1, none of which is a clock row."""
        rows = arrived.rows[begin:end]
        self._engine.sources.count(rows)
        self._event_time.note_delays(rows["at"], partition)
        late = self._waiting.add(rows, partition)
        if len(late):
            self._engine.apply_late(late, self._now)
        with_history = [row for row in arrived.histories if begin <= row < end]
        if with_history and self.watermark is not None:
            histories = [arrived.histories[row] for row in with_history]
            self._engine.apply_reported_history(arrived.rows[with_history], histories, self.watermark)

    def _on_epoch(self, epoch: int) -> None:
        self._engine.advance_epoch(epoch, self._now)

    def _on_foreign_epoch(self, epoch: int) -> None:
        """Marks the widths at the sources as unknown: another pipeline on this stream may have granted others."""
        self._engine.invalidate_widths(epoch, self._now)

    def _advance_clock(self, at: int, number: int) -> None:
        before = self.watermark
        self._open()
        future = self._waiting.too_far_ahead(at, number)
        self._event_time.tick(at, number)
        watermark = self.watermark
        has_ended_period = False
        if watermark is not None:
            if before is None:
                self._engine.start(watermark)
            has_ended_period = self._engine.advance(self._waiting.due(), watermark)
            if self._engine.any_suppressed and len(waiting := self._waiting.waiting()):
                self._engine.probe_for_pending(waiting, watermark)
        if len(future):  # after the rows up to the watermark, which precede them
            self._add_dead_letters([self._from_the_future(row, at) for row in future])
            self._engine.registry.discard(future["item"], at)
        if has_ended_period:
            self._engine.lifecycle.release(self._waiting_items(), self._now)
        if before is None and watermark is not None:
            self._take_early_statements()
            self._open()

    def _waiting_items(self) -> NDArray[np.int64]:
        return np.unique(np.concatenate([_NO_ITEMS, *(rows["item"] for rows in self._waiting.every_batch())]))

    def _from_the_future(self, row: np.void, clock: int) -> DeadRow:
        engine = self._engine
        source = int(row["source"])
        engine.sources.skew[source] = max(int(engine.sources.skew[source]), int(row["at"]) - clock)
        return self._dead_row(
            row, f"at is {int(row['at']) - clock} µs ahead of the pipeline's clock, more than a lease"
        )

    def _dead_row(self, row: np.void, reason: str) -> DeadRow:
        return DeadRow(
            reason,
            kind=KINDS[row["kind"]],
            key=self._key_of(row),
            at=int(row["at"]),
            source=self._engine.sources.names[int(row["source"])],
            sequence=int(row["sequence"]),
            value=float(row["value"]),
        )

    def _add_dead_letters(self, dead: list[DeadRow]) -> None:
        if dead:
            self._dead += capped(dead, self._limits.dead_letters)
            self._engine.lost_rows.register_items(
                [row for row in dead if self._intake.tells_of_an_item(row)], self._now
            )
            self._engine.lost_rows.mark_lost(dead, self._now)

    # -- entries in quarantine -------------------------------------------------------------------------------------

    def _skip_rows(self, skipped: Quarantined) -> None:
        """Skips an entry: the widths of its items are unknown until rows with a later sequence confirm them.

        Its clock rows do not advance time. Rows that waited for them may have caused the failure: those that the
        quarantine record names are dropped.
        """
        engine, now = self._engine, self._now
        if skipped.rows is None:
            engine.lost_rows.mark_all_lost(now)
        engine.liveness.record_lost_restarts(source_epochs(skipped), now)
        lost = [row for row in skipped_rows(skipped) if self._is_mine(row.key)]
        dropped = self._drop_waiting(skipped)
        rows = [self._dead_row(row, why(skipped)) for row in dropped]
        self._dead += rows
        about = ("update", "hello", "ack", "gone", "form_request")
        engine.lost_rows.skip([row for row in (*lost, *rows) if self._intake.tells_of_an_item(row, about)], now)
        engine.registry.discard(dropped["item"], now)
        self._note_foreign_epoch(foreign_epoch(skipped, self._checkpoint))

    def _is_mine(self, key: str) -> bool:
        try:
            return self._stream.options.shards == 1 or shard_of(key, self._stream) == self._shard
        except (ValueError, TypeError):
            return False

    def _drop_waiting(self, skipped: Quarantined) -> Rows:
        """Drops the waiting rows, queries and statements that the quarantine record names; returns the rows."""

        def is_dropped(rows: Rows) -> NDArray[np.bool_]:
            return np.fromiter((skipped.drops(self._waiting_row(row)) for row in rows), np.bool_, len(rows))

        dropped = self._waiting.drop(is_dropped)
        for name in [name for name in self._opening if skipped.drops(query_row(name))]:
            del self._opening[name]
            self._catalogue.apply(Drop("query", name))
            self._dead.append(DeadRow(why(skipped), kind="query", key=name))
        self._drop_early_statements(skipped)
        return dropped

    def _pending_rows(self) -> list[WaitingRow]:
        rows = [self._waiting_row(row) for row in self._waiting.all_waiting()]
        return [*rows, *map(query_row, self._opening)]

    def _waiting_row(self, row: np.void) -> WaitingRow:
        source = self._engine.sources.names[int(row["source"])]
        return WaitingRow(self._key_of(row), source, int(row["sequence"]))

    def _key_of(self, row: np.void) -> str:
        return self._engine.key(int(row["item"])) if row["item"] >= 0 else ""

    # -- statements ------------------------------------------------------------------------------------------------

    def _carry_out(self, statement: Statement) -> str:
        """The answers that result have the watermark as `at`."""
        if isinstance(statement, CreateQuery):
            self._opening[statement.name] = AggregateSelect.of(statement)
            return ""
        self._open()
        match statement:
            case AlterQuery(name=name):
                self._engine.queries.alter(name, AggregateSelect.of(self._catalogue.queries[name]), self._now)
            case Drop(what="query", name=name):
                self._tombstones.append(tombstones(name, self._engine.queries.groups[name], self._now))
                self._engine.queries.drop(name, self._now)
        return ""

    def _open(self) -> None:
        """Opens the queries created since the watermark last moved, all at once: one by one, a thousand would take
        minutes.
        """
        if self._opening:
            self._engine.queries.open(self._opening, self._now)
            self._opening = {}

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _drain_outputs(self) -> list[Output]:
        engine, name = self._engine, self._stream.name
        selects = engine.queries.selects
        withheld = frozenset(query for query, select in selects.items() if select.otherwise == "withhold")
        outputs = answer_outputs(engine.answers.take(), self._tombstones, withheld)
        self._tombstones = []
        outputs += engine.take_grants(grants_topic(name))
        sums = engine.sums.offers.take()
        engine.counters.forms += len(sums)
        outputs += [Output(sums_topic(name), pack(compacted(sums)))] if sums else []
        conflicts = engine.conflicts.take()
        outputs += [Output(conflicts_topic(name), pack(compacted(conflicts)))] if conflicts else []
        return outputs

    def _status(self) -> Output:
        return self._engine.status(self._now)

    def believed(self, key: str) -> tuple[float, float]:
        """(centre, width) of an item's filter at the watermark, as the pipeline knows it; infinite if unknown."""
        return self._engine.believed(key)

    def ends(self, key: str) -> tuple[float, float]:
        """Bounds of an item's value at the watermark."""
        return self._engine.value_bounds(key)

    def recalled(self, key: str) -> bool:
        """Whether the bounds of an item come from its reported history, whatever suppression is in force."""
        return self._engine.has_reported_history(key)

    # -- state -----------------------------------------------------------------------------------------------------

    def _kind_state(self) -> State:
        return State(
            engine=self._engine.state(),
            waiting=self._waiting.state(),
            opening=list(self._opening),
            foreign_epoch=self._foreign_epoch,
        )

    def _load_kind(self, state: State) -> None:
        engine, waiting, opening, self._foreign_epoch = state.exactly("engine", "waiting", "opening", "foreign_epoch")
        selects = self._catalogue.aggregates(self._stream.name)
        self._opening = {name: selects[name] for name in opening}
        self._waiting.load(waiting)
        self._engine.load(engine, selects)
