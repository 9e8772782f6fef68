"""Bounded aggregates over a stream, hosted: rows and statements of the log in, answers, grants, replies and status
out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.kernels.versions import epoch_of, version
from tolerant.spark.clocks import Clock
from tolerant.spark.hosting import Output, Replayed
from tolerant.spark.intake import KINDS, Arrived, DeadRow, Intake, capped
from tolerant.spark.kinds.engine import Engine, Rows
from tolerant.spark.kinds.saying import said_answers, said_farewell, said_grants, status
from tolerant.spark.kinds.skipping import (
    early_row,
    letter,
    query_row,
    rival_epoch,
    sift_early,
    skip_statements,
    skipped_rows,
    source_epochs,
    why,
)
from tolerant.spark.kinds.statements import owner_of, said_letters, statement_rows, take_statements
from tolerant.spark.splitter import shard_of
from tolerant.spark.timeline import Timeline
from tolerant.sql import Catalogue, decode, encode
from tolerant.sql.statements import AggregateSelect, AlterQuery, CreateQuery, Drop, Statement
from tolerant.streams import Stream
from tolerant.transport.conflicts import conflicts_topic
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME, compacted, pack


class BoundedShard(Replayed):
    """One shard of a stream's pipeline (`specs/0-pipeline.md` §3, §4).

    `epoch` and `checkpoint` are those of an empty start; a later epoch comes with a clock row that names this
    checkpoint.
    """

    def __init__(self, stream: Stream, shard: int, epoch: int, checkpoint: str, partitions: int = 1) -> None:
        self._stream, self._shard, self._checkpoint = stream, shard, checkpoint
        self._engine = Engine(stream, shard, epoch)
        options = stream.options
        self._timeline = Timeline(options.latency, options.lease, partitions, options.latency_percentile)
        coordinator = self._engine.coordinator
        self._intake = Intake(stream, coordinator.find, self._engine.admit, self._engine.sources, coordinator.__len__)
        self._catalogue = Catalogue()
        self._early: list[tuple[str, str]] = []
        self._replies: list[dict[str, object]] = []
        self._opening: dict[str, AggregateSelect] = {}
        self._farewells: dict[int, list[Output]] = {}  # behind so many parts of the answers
        self._clocks: dict[int, Clock] = {}  # by partition
        self._rival = 0
        self._boundaries = 0

    # -- taking ----------------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Entries of `updates.<stream>` and `queries`, in the order of the log."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == "queries":
                self._statements(entry.payload)
            else:
                self._engine.tally.bytes += len(entry.payload)
                self._rows(self._intake.read(entry.payload), entry.partition)
        return self._say()

    def _rows(self, arrived: Arrived, partition: int) -> None:
        self._bury(arrived.dead)
        begin = 0
        for clock, checkpoint in arrived.checkpoints.items():
            self._values(arrived, begin, clock, partition)
            self._clock(arrived.rows[clock], checkpoint, partition)
            begin = clock + 1
        self._values(arrived, begin, len(arrived.rows), partition)

    def _values(self, arrived: Arrived, begin: int, end: int, partition: int) -> None:
        """Rows begin … end − 1, without a clock row among them."""
        self._wait(arrived.rows[begin:end], partition)
        recalling = [row for row in arrived.ways if begin <= row < end]
        if recalling and self._timeline.horizon is not None:
            self._engine.recall(arrived.rows[recalling], [arrived.ways[row] for row in recalling], self._now())

    def _wait(self, rows: Rows, partition: int) -> None:
        self._engine.sources.count(rows)
        self._timeline.note_delays(rows, partition)
        late = self._timeline.is_late(rows)
        if not late.any():
            self._timeline.wait(rows, partition)
            return
        self._timeline.wait(rows[~late], partition)
        self._engine.late(rows[late], self._now())

    def _clock(self, row: np.void, checkpoint: str, partition: int) -> None:
        if checkpoint and checkpoint != self._checkpoint:
            self._meet(epoch_of(int(row["sequence"])))
            return
        epoch = epoch_of(int(row["sequence"]))
        if checkpoint and epoch > self._engine.coordinator.ledger.epoch:
            self._engine.coordinator.advance_epoch(epoch, self._timeline.horizon or 0)
        if row["at"] != NO_TIME:
            times, refused = self._clocks.setdefault(partition, Clock(self._stream.options.boundary)).take(
                int(row["at"])
            )
            self._bury(refused)
            for at in times:
                self._pass(at, partition)

    def _meet(self, rival: int) -> None:
        """Another pipeline runs on this stream: what the sources' filters are may be its doing."""
        if rival > self._rival:
            self._rival = rival
            self._engine.doubt_all(rival, self._timeline.horizon or 0)

    def _pass(self, at: int, partition: int) -> None:
        first = self._timeline.horizon is None
        self._open()
        future = self._timeline.tick(at, partition)
        horizon = self._timeline.horizon
        passed = False
        if horizon is not None:
            if first:
                self._engine.start(horizon)
            passed = self._engine.advance(self._timeline.due(), horizon)
            if self._engine.coordinator.away and len(waiting := self._timeline.waiting()):
                self._engine.foresee(waiting, horizon)
        if len(future):  # after the rows up to the horizon, of which these are ahead
            self._bury([self._from_the_future(row, at) for row in future])
            self._engine.roll.discard(future["item"], at)
        if passed:
            self._engine.release(self._timeline.waiting_items(), self._now())
        if horizon is None:
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

    def _bury(self, dead: list[DeadRow]) -> None:
        if dead:
            now = self._timeline.horizon or 0
            self._engine.dead.extend(capped(dead, self._stream.options.limits.dead_letters))
            self._engine.expect([row for row in dead if self._intake.tells_of_an_item(row)], now)
            self._engine.lose(dead, now)

    # -- entries in quarantine -------------------------------------------------------------------------------------

    def _skip(self, skipped: Quarantined) -> None:
        """Nothing of the entry applies: the widths of its items are unknown until rows of later sequence confirm them.

        Clock rows in it move nothing, but what waited for them may be what failed: it is dropped as the record says.
        """
        engine, now = self._engine, self._timeline.horizon or 0
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
        about = ("update", "hello", "ack", "gone", "wish")
        engine.skip([row for row in (*lost, *rows) if self._intake.tells_of_an_item(row, about)], now)
        engine.roll.discard(dropped["item"], now)
        self._meet(rival_epoch(skipped, self._checkpoint))

    def _is_mine(self, key: str) -> bool:
        try:
            return self._stream.options.shards == 1 or shard_of(key, self._stream) == self._shard
        except (ValueError, TypeError):
            return False

    def _drop_waiting(self, skipped: Quarantined) -> Rows:
        """Let go of what waited and is at fault; the rows among it."""

        def is_dropped(rows: Rows) -> NDArray[np.bool_]:
            return np.fromiter((skipped.drops(self._waiting_row(row)) for row in rows), np.bool_, len(rows))

        dropped = self._timeline.drop(is_dropped)
        for name in [name for name in self._opening if skipped.drops(query_row(name))]:
            del self._opening[name]
            self._catalogue.apply(Drop("query", name))
            self._engine.dead.append(DeadRow(why(skipped), kind="query", key=name))
        self._early, early = sift_early(skipped, self._early)
        self._engine.dead += early
        return dropped

    def waiting_rows(self) -> list[WaitingRow]:
        """Rows that wait for their time, queries that wait to be opened, statements that wait for time to begin."""
        rows = [self._waiting_row(row) for row in self._timeline.all_waiting()]
        return [*rows, *map(query_row, self._opening), *map(early_row, self._early)]

    def _waiting_row(self, row: np.void) -> WaitingRow:
        source = self._engine.sources.names[int(row["source"])]
        return WaitingRow(self._key_of(row), source, int(row["sequence"]))

    def _key_of(self, row: np.void) -> str:
        return str(self._engine.coordinator.item_names()[row["item"]]) if row["item"] >= 0 else ""

    def _now(self) -> int:
        horizon = self._timeline.horizon
        assert horizon is not None
        return horizon

    # -- statements ------------------------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        rows = statement_rows(payload, self._engine.dead)
        if self._timeline.horizon is None:
            self._early.extend(rows)
        else:
            self._take_statements(rows)

    def _take_statements(self, rows: Sequence[tuple[str, str]]) -> None:
        """Statements take effect just after the horizon, in order."""
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
        """Make it so; the answers that follow are as of the horizon."""
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
                # Behind its last answers, and before those of a query that is created under its name at the same time.
                self._farewells.setdefault(self._engine.parts, []).append(said_farewell(name, groups, now))

    def _open(self) -> None:
        """Start the queries that were created since time last moved: one by one, a thousand of them would take
        minutes.
        """
        if self._opening:
            self._engine.open(self._opening, self._now())
            self._opening = {}

    # -- saying ----------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        engine, name = self._engine, self._stream.name
        withheld = frozenset(query for query, select in engine.selects.items() if select.otherwise == "withhold")
        outputs = list(self._farewells.pop(0, ()))
        for part, (said, names) in enumerate(engine.take_answers(), 1):
            outputs += [*said_answers(said, names, withheld), *self._farewells.pop(part, ())]
        decided = engine.coordinator.take_decisions()
        engine.tally.grants += len(decided.item)
        outputs += said_grants(
            f"grants.{name}",
            decided,
            engine.coordinator.item_names(),
            engine.coordinator.shrink,
            engine.take_forgotten(),
            version(engine.coordinator.ledger.epoch, engine.coordinator.ledger.issued),
        )
        formed = engine.forms.take()
        engine.tally.forms += len(formed)
        outputs += [Output(f"forms.{name}", pack(compacted(formed)))] if formed else []
        conflicts = engine.disputes.take()
        outputs += [Output(conflicts_topic(name), pack(compacted(conflicts)))] if conflicts else []
        engine.tally.dead += sum(row.count for row in engine.dead)
        outputs += said_letters(name, engine.dead, self._replies)
        engine.dead, self._replies = [], []
        if engine.tally.boundaries > self._boundaries:
            self._boundaries = engine.tally.boundaries
            outputs.append(status(engine, name, self._shard, self._now()))
        return outputs

    def believed(self, key: str) -> tuple[float, float]:
        """(centre, width) that the pipeline reckons with for an item at its horizon; an infinite width is unknown."""
        return self._engine.coordinator.believed(key)

    def ends(self, key: str) -> tuple[float, float]:
        """Between which values the pipeline reckons with an item at its horizon."""
        return self._engine.coordinator.ends(key)

    def recalled(self, key: str) -> bool:
        """Whether an item is reckoned with where it has told that it is, whatever its leave."""
        return self._engine.coordinator.recalled(key)

    @property
    def horizon(self) -> int | None:
        """Everything up to this event time has been taken into account."""
        return self._timeline.horizon

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All of the state as bytes; nothing is left unsaid between batches."""
        arrays, engine = self._engine.state()
        more, timeline = self._timeline.state()
        statements = [encode(statement) for statement in self._catalogue.statements()]
        clocks = [[partition, clock.state()] for partition, clock in self._clocks.items()]
        values = [engine, timeline, statements, self._early, list(self._opening), self._rival, self._boundaries, clocks]
        return snapshots.pack(arrays | more, values)

    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        engine, timeline, statements, early, opening, self._rival, self._boundaries, clocks = values
        self._clocks = {partition: Clock.load(state) for partition, state in clocks}
        self._early = [(request, body) for request, body in early]
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._timeline.load(arrays, timeline)
        selects = {
            name: query.select
            for name, query in self._catalogue.queries.items()
            if isinstance(query.select, AggregateSelect)
        }
        self._opening = {name: selects[name] for name in opening}
        self._engine.load(arrays, engine, selects)
