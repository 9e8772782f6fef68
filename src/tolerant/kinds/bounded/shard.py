"""Hosts bounded aggregates over a stream: reads rows and statements from the log, writes answers, grants, replies and
status.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.kernels.versions import epoch_of, version
from tolerant.kinds.bounded.engine import Engine, Rows
from tolerant.kinds.bounded.outputs import answer_outputs, grant_outputs, status, tombstone_current
from tolerant.pipeline.clocks import Clock
from tolerant.pipeline.event_time import EventTimeBuffer
from tolerant.pipeline.hosting import Output, Replayed
from tolerant.pipeline.intake import KINDS, Arrived, DeadRow, Intake, capped
from tolerant.pipeline.quarantined_rows import (
    early_row,
    foreign_epoch,
    letter,
    query_row,
    sift_early,
    skip_statements,
    skipped_rows,
    source_epochs,
    why,
)
from tolerant.pipeline.splitter import shard_of
from tolerant.pipeline.statements import dead_letter_and_reply_outputs, owner_of, statement_rows, take_statements
from tolerant.sql import Catalogue, decode, encode
from tolerant.sql.statements import AggregateSelect, AlterQuery, CreateQuery, Drop, Statement
from tolerant.streams import Stream
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME, compacted, pack
from tolerant.transport.topics import QUERIES, conflicts_topic, grants_topic, sums_topic


class BoundedShard(Replayed):
    """One shard of a stream's pipeline (`docs/design/pipeline.md` §3, §4).

    `epoch` and `checkpoint` are those of a start from an empty checkpoint; a clock row that names this checkpoint
    brings a later epoch.
    """

    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str, partitions: int = 1) -> None:
        self._stream, self._shard, self._checkpoint = stream, shard, checkpoint
        self._engine = Engine(stream, shard, epoch)
        options = stream.options
        self._event_time = EventTimeBuffer(options.latency, options.lease, partitions, options.latency_percentile)
        coordinator = self._engine.coordinator
        self._intake = Intake(
            stream,
            coordinator.membership.find,
            self._engine.admit,
            self._engine.sources,
            coordinator.membership.__len__,
        )
        self._catalogue = Catalogue()
        self._early: list[tuple[str, str]] = []
        self._replies: list[dict[str, object]] = []
        self._opening: dict[str, AggregateSelect] = {}
        self._pending_tombstones: dict[int, list[Output]] = {}  # by the number of parts of the answers that come first
        self._clocks: dict[int, Clock] = {}  # by partition
        self._foreign_epoch = 0
        self._boundaries = 0

    # -- input -----------------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Applies entries of `updates.<stream>` and `queries`, in log order; returns the outputs."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            else:
                self._engine.tally.bytes += len(entry.payload)
                self._rows(self._intake.read(entry.payload), entry.partition)
        return self._say()

    def _rows(self, arrived: Arrived, partition: int) -> None:
        self._add_dead_letters(arrived.dead)
        begin = 0
        for clock, checkpoint in arrived.checkpoints.items():
            self._values(arrived, begin, clock, partition)
            self._clock(arrived.rows[clock], checkpoint, partition)
            begin = clock + 1
        self._values(arrived, begin, len(arrived.rows), partition)

    def _values(self, arrived: Arrived, begin: int, end: int, partition: int) -> None:
        """Takes rows begin … end − 1, none of which is a clock row."""
        self._wait(arrived.rows[begin:end], partition)
        recalling = [row for row in arrived.ways if begin <= row < end]
        if recalling and self._event_time.watermark is not None:
            self._engine.recall(arrived.rows[recalling], [arrived.ways[row] for row in recalling], self._now())

    def _wait(self, rows: Rows, partition: int) -> None:
        self._engine.sources.count(rows)
        self._event_time.note_delays(rows, partition)
        late = self._event_time.is_late(rows)
        if not late.any():
            self._event_time.wait(rows, partition)
            return
        self._event_time.wait(rows[~late], partition)
        self._engine.late(rows[late], self._now())

    def _clock(self, row: np.void, checkpoint: str, partition: int) -> None:
        if checkpoint and checkpoint != self._checkpoint:
            self._on_foreign_epoch(epoch_of(int(row["sequence"])))
            return
        epoch = epoch_of(int(row["sequence"]))
        if checkpoint and epoch > self._engine.coordinator.grant_log.epoch:
            self._engine.coordinator.evidence.advance_epoch(epoch, self._event_time.watermark or 0)
        if row["at"] != NO_TIME:
            times, refused = self._clocks.setdefault(partition, Clock(self._stream.options.boundary)).take(
                int(row["at"])
            )
            self._add_dead_letters(refused)
            for at in times:
                self._pass(at, partition)

    def _on_foreign_epoch(self, epoch: int) -> None:
        """Marks the widths at the sources as unknown: another pipeline on this stream may have granted others."""
        if epoch > self._foreign_epoch:
            self._foreign_epoch = epoch
            self._engine.invalidate_widths(epoch, self._event_time.watermark or 0)

    def _pass(self, at: int, partition: int) -> None:
        first = self._event_time.watermark is None
        self._open()
        future = self._event_time.tick(at, partition)
        watermark = self._event_time.watermark
        passed = False
        if watermark is not None:
            if first:
                self._engine.start(watermark)
            passed = self._engine.advance(self._event_time.due(), watermark)
            if self._engine.coordinator.membership.any_suppressed and len(waiting := self._event_time.waiting()):
                self._engine.probe_for_pending(waiting, watermark)
        if len(future):  # after the rows up to the watermark, which precede them
            self._add_dead_letters([self._from_the_future(row, at) for row in future])
            self._engine.roll.discard(future["item"], at)
        if passed:
            self._engine.release(self._event_time.waiting_items(), self._now())
        if watermark is None:
            return
        if first:
            early, self._early = self._early, []
            self._take_statements(early)
            self._open()

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
            now = self._event_time.watermark or 0
            self._engine.dead.extend(capped(dead, self._stream.options.limits.dead_letters))
            self._engine.expect([row for row in dead if self._intake.tells_of_an_item(row)], now)
            self._engine.lose(dead, now)

    # -- entries in quarantine -------------------------------------------------------------------------------------

    def _skip(self, skipped: Quarantined) -> None:
        """Skips an entry: the widths of its items are unknown until rows with a later sequence confirm them.

        Its clock rows do not advance time. Rows that waited for them may have caused the failure: those that the
        quarantine record names are dropped.
        """
        engine, now = self._engine, self._event_time.watermark or 0
        engine.dead.append(letter(skipped))
        if skip_statements(skipped, self._catalogue, self._take_statement):
            return
        if skipped.rows is None:
            engine.lose_all(now)
        engine.missed_starts(source_epochs(skipped), now)
        lost = [row for row in skipped_rows(skipped) if self._is_mine(row.key)]
        dropped = self._drop_waiting(skipped)
        rows = [self._dead_row(row, why(skipped)) for row in dropped]
        engine.dead += rows
        about = ("update", "hello", "ack", "gone", "form_request")
        engine.skip([row for row in (*lost, *rows) if self._intake.tells_of_an_item(row, about)], now)
        engine.roll.discard(dropped["item"], now)
        self._on_foreign_epoch(foreign_epoch(skipped, self._checkpoint))

    def _is_mine(self, key: str) -> bool:
        try:
            return self._stream.options.shards == 1 or shard_of(key, self._stream) == self._shard
        except (ValueError, TypeError):
            return False

    def _drop_waiting(self, skipped: Quarantined) -> Rows:
        """Drops the waiting rows, queries and statements that the quarantine record names; returns the rows."""

        def is_dropped(rows: Rows) -> NDArray[np.bool_]:
            return np.fromiter((skipped.drops(self._waiting_row(row)) for row in rows), np.bool_, len(rows))

        dropped = self._event_time.drop(is_dropped)
        for name in [name for name in self._opening if skipped.drops(query_row(name))]:
            del self._opening[name]
            self._catalogue.apply(Drop("query", name))
            self._engine.dead.append(DeadRow(why(skipped), kind="query", key=name))
        self._early, early = sift_early(skipped, self._early)
        self._engine.dead += early
        return dropped

    def waiting_rows(self) -> list[WaitingRow]:
        """Rows that wait for the watermark, queries to be opened, and statements that wait for the first watermark."""
        rows = [self._waiting_row(row) for row in self._event_time.all_waiting()]
        return [*rows, *map(query_row, self._opening), *map(early_row, self._early)]

    def _waiting_row(self, row: np.void) -> WaitingRow:
        source = self._engine.sources.names[int(row["source"])]
        return WaitingRow(self._key_of(row), source, int(row["sequence"]))

    def _key_of(self, row: np.void) -> str:
        return str(self._engine.coordinator.membership.item_names[row["item"]]) if row["item"] >= 0 else ""

    def _now(self) -> int:
        watermark = self._event_time.watermark
        assert watermark is not None
        return watermark

    # -- statements ------------------------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        rows = statement_rows(payload, self._engine.dead)
        if self._event_time.watermark is None:
            self._early.extend(rows)
        else:
            self._take_statements(rows)

    def _take_statements(self, rows: Sequence[tuple[str, str]]) -> None:
        """Applies statements in order; they take effect just after the watermark."""
        take_statements(rows, self._take_statement, self._engine.dead)

    def _take_statement(self, request: str, statement: Statement) -> None:
        owner = owner_of(statement, self._catalogue)
        outcome = self._catalogue.apply(statement)
        if owner != self._stream.name:
            return
        if outcome.accepted and outcome.changed:
            self._carry_out(statement)
        if self._shard == 0:
            reply = {"request": request, "key": statement.about, "at": self._now()}
            self._replies.append(reply | {"accepted": outcome.accepted, "message": outcome.message})

    def _carry_out(self, statement: Statement) -> None:
        """Carries out an accepted statement; the answers that result have the watermark as `at`."""
        if isinstance(statement, CreateQuery) and isinstance(statement.select, AggregateSelect):
            self._opening[statement.name] = statement.select
            return
        self._open()
        now = self._now()
        match statement:
            case AlterQuery(name=name):
                altered = self._catalogue.queries[name].select
                assert isinstance(altered, AggregateSelect)
                self._engine.alter(name, altered, now)
            case Drop(what="query", name=name):
                groups = self._engine.instances[name]
                self._engine.drop(name, now)
                # After its last answers, and before those of a query that is created with its name at the same time.
                self._pending_tombstones.setdefault(self._engine.parts, []).append(tombstone_current(name, groups, now))

    def _open(self) -> None:
        """Opens the queries created since the watermark last moved, all at once: one by one, a thousand would take
        minutes.
        """
        if self._opening:
            self._engine.open(self._opening, self._now())
            self._opening = {}

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        engine, name = self._engine, self._stream.name
        withheld = frozenset(query for query, select in engine.selects.items() if select.otherwise == "withhold")
        outputs = list(self._pending_tombstones.pop(0, ()))
        for part, (said, names) in enumerate(engine.take_answers(), 1):
            outputs += [*answer_outputs(said, names, withheld), *self._pending_tombstones.pop(part, ())]
        decided = engine.coordinator.grant_log.drain_grants()
        engine.tally.grants += len(decided.item)
        outputs += grant_outputs(
            grants_topic(name),
            decided,
            engine.coordinator.membership.item_names,
            engine.coordinator.grant_log.shrink,
            engine.take_forgotten(),
            version(engine.coordinator.grant_log.epoch, engine.coordinator.grant_log.issued),
        )
        formed = engine.forms.take()
        engine.tally.forms += len(formed)
        outputs += [Output(sums_topic(name), pack(compacted(formed)))] if formed else []
        conflicts = engine.disputes.take()
        outputs += [Output(conflicts_topic(name), pack(compacted(conflicts)))] if conflicts else []
        engine.tally.dead += sum(row.count for row in engine.dead)
        outputs += dead_letter_and_reply_outputs(name, engine.dead, self._replies)
        engine.dead, self._replies = [], []
        if engine.tally.boundaries > self._boundaries:
            self._boundaries = engine.tally.boundaries
            outputs.append(status(engine, name, self._shard, self._now()))
        return outputs

    def believed(self, key: str) -> tuple[float, float]:
        """(centre, width) of an item's filter at the watermark, as the pipeline knows it; infinite if unknown."""
        return self._engine.coordinator.believed(key)

    def ends(self, key: str) -> tuple[float, float]:
        """Bounds of an item's value at the watermark."""
        return self._engine.coordinator.value_bounds(key)

    def recalled(self, key: str) -> bool:
        """Whether the bounds of an item come from its reported history, whatever suppression is in force."""
        return self._engine.coordinator.membership.has_reported_history(key)

    @property
    def watermark(self) -> int | None:
        """Event time up to which all rows have been applied; None before the first."""
        return self._event_time.watermark

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The state as bytes. Between batches no outputs are pending, so it contains none."""
        arrays, engine = self._engine.state()
        more, timeline = self._event_time.state()
        statements = [encode(statement) for statement in self._catalogue.statements()]
        clocks = [[partition, clock.state()] for partition, clock in self._clocks.items()]
        values = [
            engine,
            timeline,
            statements,
            self._early,
            list(self._opening),
            self._foreign_epoch,
            self._boundaries,
            clocks,
        ]
        return snapshots.pack(arrays | more, values)

    def load(self, snapshot: bytes) -> None:
        """Restores what `snapshot` returned, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        engine, timeline, statements, early, opening, self._foreign_epoch, self._boundaries, clocks = values
        self._clocks = {partition: Clock.load(state) for partition, state in clocks}
        self._early = [(request, body) for request, body in early]
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._event_time.load(arrays, timeline)
        selects = {
            name: query.select
            for name, query in self._catalogue.queries.items()
            if isinstance(query.select, AggregateSelect)
        }
        self._opening = {name: selects[name] for name in opening}
        self._engine.load(arrays, engine, selects)
