"""Hosts aggregates over a network of aggregators: reads rows of parts, reports and statements from the log, writes
plans, answers, replies and status (`docs/design/planning.md` §6).

The pipeline is the client of the plans. It never sees items: aggregators send the parts that the plan in
`grants.<stream>` assigns to them, and an answer is their sum, each within its share of the tolerance. The pipeline
plans from the aggregators' reports; plans are functions of the log like everything else (`docs/design/pipeline.md` §3):
rows wait for the watermark, which is one latency allowance per hop behind the clock, and apply in the order of `at`.

A value of an aggregator is valid while the aggregator is known to be alive: up to its newest `through`. After that its
items may have changed, so an answer that needs it is stale until its next row; heartbeats are frequent enough that this
happens only to aggregators that have crashed. One that is silent for a lease is planned around at once. After a restart
a part of an aggregator is trusted only when it has been sent again. While a new plan takes effect, answers come from
the old plan and are settling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tolerant.kernels import snapshots
from tolerant.kernels.versions import epoch_of, version
from tolerant.kinds.bounded.engine import LEAP
from tolerant.kinds.network.liveness import Alive, Life
from tolerant.kinds.network.outputs import Saying, network_status
from tolerant.kinds.network.queries import Standing
from tolerant.kinds.network.rows import Reported, Row, read_reports, read_rows, unfit, unusable
from tolerant.pipeline.clocks import Clock
from tolerant.pipeline.hosting import Output, Replayed
from tolerant.pipeline.intake import DeadRow, capped, dead_payload, readable_row
from tolerant.pipeline.quarantined_rows import (
    early_row,
    foreign_epoch,
    letter,
    sift_early,
    skip_statements,
    skipped_rows,
    why,
)
from tolerant.pipeline.statements import dead_letter_and_reply_outputs, owner_of, statement_rows, take_statements
from tolerant.planning import AnnouncedPlan, Planner, PlannerOptions, ReportedDynamics, depth
from tolerant.queries import Aggregate
from tolerant.sql import Catalogue, decode, encode
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.sql.networks import aggregates, network_of
from tolerant.sql.statements import AggregateSelect, AlterQuery, CreateQuery, Drop, Statement
from tolerant.streams import SECOND, SPLIT, Stream
from tolerant.transport.log import Entry
from tolerant.transport.plans import PRESENCE, read_part_key
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME
from tolerant.transport.topics import QUERIES, reports_topic

PERIOD = 1000
"""Ticks between two revisions of the plans once the dynamics are learned; at first revisions are more frequent."""

_SMOOTHING = 0.1
"""Weight of the newest period in the displayed rate of rows from aggregators."""


class NetworkShard(Replayed):
    """`Hosted` by Spark; see the module. A stream with a network has one shard.

    Clock rows that name this checkpoint carry the pipeline's epoch, the first of them before anything is planned: a
    shard that is restored by replaying all its entries gives its plans the same numbers.
    """

    def __init__(self, stream: Stream, shard: int, checkpoint: str) -> None:
        self._stream, self._shard, self._checkpoint = stream, shard, checkpoint
        self._network = network_of(stream)
        options = stream.options
        self._lease, self._interval = options.lease, options.boundary
        hops = 1 + max(depth(self._network, name) for name in self._network.aggregators)
        self._latency = hops * options.latency
        self._widest = max(1, PERIOD // options.period)
        self._learned = ReportedDynamics(self._network)
        self._planning = PlannerOptions(heuristic=SPLIT if options.policy == SPLIT else None)
        self._planner = Planner(self._network, options=self._planning, learned=self._learned)
        self._catalogue = Catalogue()
        self._standing: dict[str, Standing] = {}
        self._alive = {name: Alive(NO_TIME) for name in self._network.aggregators}
        self._life = Life()
        self._early: list[tuple[str, str]] = []
        self._arrived: list[Row] = []  # since the last clock row
        self._waiting: list[Row] = []  # for the watermark
        self._reports: list[Reported] = []
        self._clock_rows, self._limits = Clock(options.boundary), options.limits
        self._refused: list[DeadRow] = []  # of this entry
        self._saying = Saying()
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    # -- input -----------------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Applies entries of `updates.<stream>`, `reports.<stream>` and `queries` in log order; returns the outputs."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            elif entry.topic == reports_topic(self._stream.name):
                self._take_reports(entry.payload)
            else:
                self._rows(entry.payload)
        return self._say()

    @property
    def watermark(self) -> int | None:
        """Event time up to which all rows have been applied; None before the first."""
        return self._life.watermark

    @property
    def planner(self) -> Planner:
        """The plans, as of the watermark."""
        return self._planner

    def _rows(self, payload: bytes) -> None:
        self._count("bytes", len(payload))
        try:
            rows = read_rows(payload, self._limits)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        self._take_rows(rows)
        self._cap()

    def _take_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            reason = unusable(row, self._limits.key_length) or unfit(row, self._alive, self._stream.uri)
            if reason:
                self._add_dead_letters(row, reason)
            elif row.kind == "clock":
                self._clock(row)
            else:
                self._arrive(row)

    def _arrive(self, row: Row) -> None:
        self._alive[row.source].read(epoch_of(row.sequence), row.through)
        if self._life.watermark is not None and row.at <= self._life.watermark:
            self._late(row)
        else:
            self._arrived.append(row)

    def _add_dead_letters(self, row: Row, reason: str) -> None:
        """Writes a dead letter for an unusable row; the value of its part becomes unknown."""
        self._refused.append(readable_row(row._asdict(), reason, self._limits.key_length))
        self._lose(row)

    def _lose(self, row: Row | DeadRow) -> None:
        """Marks the part of a lost row as unknown."""
        place = self._placed(row) if row.source in self._alive else None
        if place is not None and self._life.watermark is not None:
            standing, found = place
            standing.doubt(found)
            self._saying.touch(standing.query.name)
            self._settle(self._life.watermark)

    def _placed(self, row: Row | DeadRow) -> tuple[Standing, Any] | None:
        try:
            query, group, slot = read_part_key(row.key or "")
        except ValueError:
            return None
        standing = self._standing.get(instance_name(query, group))
        place = standing.find(slot) if standing is not None else None
        if standing is None or place is None or place.aggregator != row.source:
            return None
        return standing, place

    def _skip(self, skipped: Quarantined) -> None:
        """Skips an entry in quarantine: the parts of its rows, and of the waiting rows it drops, become unknown."""
        self._dead.append(letter(skipped))
        if skip_statements(skipped, self._catalogue, self._statement):
            self._settle(self._life.watermark or 0)
            return
        gone = [row for row in (*self._arrived, *self._waiting) if skipped.drops(_waiting_row(row))]
        self._arrived = [row for row in self._arrived if row not in gone]
        self._waiting = [row for row in self._waiting if row not in gone]
        reports = [report for report in self._reports if skipped.drops(_waiting_report(report))]
        self._reports = [report for report in self._reports if report not in reports]
        self._early, dropped = sift_early(skipped, self._early)
        self._dead += dropped
        for row in gone:
            self._add_dead_letters(row, why(skipped))
        self._dead += [DeadRow(why(skipped), kind="report", source=report.aggregator or "") for report in reports]
        for lost in skipped_rows(skipped):
            self._lose(lost)
        self._life.foreign_epoch = max(self._life.foreign_epoch, foreign_epoch(skipped, self._checkpoint))
        if skipped.rows is None:
            for standing in self._standing.values():
                for aggregator in self._alive:
                    standing.restarted(aggregator)
                self._saying.touch(standing.query.name)
            self._settle(self._life.watermark or 0)

    def waiting_rows(self) -> list[WaitingRow]:
        """Rows and reports that wait for the watermark, and statements that wait for the first watermark."""
        rows = [_waiting_row(row) for row in (*self._arrived, *self._waiting)]
        return [*rows, *map(_waiting_report, self._reports), *map(early_row, self._early)]

    def _take_reports(self, payload: bytes) -> None:
        self._count("bytes", len(payload))
        try:
            good, bad = read_reports(payload, self._limits)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        self._reports += good
        self._refused += bad
        self._cap()

    def _cap(self) -> None:
        """Adds dead letters for the unusable rows of an entry, up to the limit."""
        self._dead += capped(self._refused, self._limits.dead_letters)
        self._refused = []

    # -- time ------------------------------------------------------------------------------------------------------

    def _clock(self, row: Row) -> None:
        epoch, life = epoch_of(row.sequence), self._life
        if row.source and row.source != self._checkpoint:
            life.foreign_epoch = max(life.foreign_epoch, epoch)
            return
        if row.source and epoch > life.epoch:
            asked_anew = life.foreign_epoch >= life.epoch
            life.epoch, life.issued = epoch, 0
            if asked_anew and life.watermark is not None:
                self._ask_anew()
        if row.at != NO_TIME:
            times, refused = self._clock_rows.take(row.at)
            self._refused += refused
            for at in times:
                self._pass(at)

    def _ask_anew(self) -> None:
        """Announces all plans again: those of another pipeline have replaced them at the aggregators."""
        for name, standing in self._standing.items():
            standing.renumber(self._next_version())
            for aggregator, alive in self._alive.items():
                if not alive.trusted and standing.client is not None:
                    standing.client.mark_silent(aggregator)
            self._announce(name)
        self._settle(self._life.watermark or 0)

    def _pass(self, clock: int) -> None:
        """Advances to a clock row: all rows up to one latency allowance per hop before it have arrived."""
        ahead = clock + self._lease
        arrived, self._arrived = self._arrived, []
        future = [row for row in arrived if row.at > ahead]
        self._waiting += [row for row in arrived if row.at <= ahead]
        premature = [report for report in self._reports if report.at > ahead]
        self._reports = [report for report in self._reports if report.at <= ahead]
        watermark, first = clock - self._latency, self._life.watermark is None
        if not first and watermark <= (self._life.watermark or 0):
            watermark = self._life.watermark or 0
        if first:
            self._begin(watermark)
        self._advance(watermark)
        for row in future:
            self._add_dead_letters(row, f"at is {row.at - clock} µs ahead of the pipeline's clock, more than a lease")
        for report in premature:
            reason = f"report: at is {report.at - clock} µs ahead of the pipeline's clock, more than a lease"
            self._refused.append(DeadRow(reason, kind="report", at=report.at, source=report.aggregator))
        if first:
            early, self._early = self._early, []
            self._take_statements(early)

    def _begin(self, watermark: int) -> None:
        """Starts event time at the first watermark; every aggregator counts as live for a lease."""
        life = self._life
        life.watermark, life.passed = watermark, max((watermark - 1) // self._interval, 0)
        life.look = life.passed + 1
        for alive in self._alive.values():
            alive.heard = watermark

    def _advance(self, watermark: int) -> None:
        """Applies rows, ends of adjustment periods and silences up to the watermark, in the order of their times."""
        due = sorted((row for row in self._waiting if row.at <= watermark), key=lambda row: row[:5])
        self._waiting = [row for row in self._waiting if row.at > watermark]
        begin, reached = 0, self._life.watermark or 0
        self._prove(reached)
        while True:
            boundary = (self._life.passed + 1) * self._interval + 1
            silence = min((a.heard + self._lease + 1 for a in self._alive.values() if not a.silent), default=boundary)
            doubt = min((a.lived + 1 for a in self._alive.values() if a.trusted and a.epoch), default=boundary)
            moment = min(boundary, silence, max(doubt, reached + 1), due[begin].at if begin < len(due) else boundary)
            if moment > watermark:
                break
            if boundary == moment:
                self._boundary(boundary)
                self._leap(due[begin].at if begin < len(due) else watermark)
            while begin < len(due) and due[begin].at <= moment:
                self._apply(due[begin])
                begin += 1
            self._silences(moment)
            self._doubt(moment)
            self._settle(moment)
        self._life.watermark = watermark
        self._settle(watermark)

    def _leap(self, until: int) -> None:
        """Skips all periods that end before `until` except the last, if they are many and all aggregators are silent:
        there is nothing to plan with, and no answer is settled.
        """
        last = (min([until, *(report.at for report in self._reports)]) - 2) // self._interval
        if all(alive.silent for alive in self._alive.values()) and last - self._life.passed > LEAP:
            self._count("boundaries", last - 1 - self._life.passed)
            self._life.passed = last - 1

    def _silences(self, at: int) -> None:
        for name, alive in self._alive.items():
            if not alive.silent and alive.heard + self._lease < at:
                alive.silent = True
                self._trust(name, False)
                self._adopt(self._planner.mark_down(name))

    def _doubt(self, at: int) -> None:
        """Stops trusting aggregators not known to be alive at `at`: they may have crashed, and their items changed."""
        for name, alive in self._alive.items():
            if alive.trusted and alive.epoch and alive.lived < at:
                alive.unproven = True
                self._trust(name, False)

    def _prove(self, at: int) -> None:
        """Trusts aggregators again whose rows show that they were alive after `at`: they had sent every change."""
        for name, alive in self._alive.items():
            if alive.unproven and alive.lived > at:
                alive.unproven = False
                self._trust(name, alive.trusted)

    def _trust(self, name: str, trusted: bool) -> None:
        """Marks the last values of an aggregator as valid or as stale."""
        for standing in self._standing.values():
            if standing.client is not None:
                (standing.client.mark_alive if trusted else standing.client.mark_silent)(name)
                self._saying.touch(standing.query.name)

    def _boundary(self, at: int) -> None:
        life = self._life
        rows = sum(life.tally[kind] for kind in ("update", "hello", "ack"))
        life.pace += _SMOOTHING * (rows - life.counted - life.pace)
        life.counted = rows
        life.passed += 1
        self._count("boundaries")
        for report in sorted((one for one in self._reports if one.at <= at), key=lambda one: one[:2]):
            self._learn(report)
        self._reports = [report for report in self._reports if report.at > at]
        if life.passed >= life.look:
            self._adopt(self._planner.on_period_end())
            life.look = life.passed + life.gap
            life.gap = min(2 * life.gap, self._widest)
            self._saying.learned()
        for name, standing in self._standing.items():
            self._tell_levels(name, standing.give)

    def _learn(self, row: Reported) -> None:
        try:
            self._learned.update(row.aggregator, row.report())
            self._alive[row.aggregator].late = row.late
            self._count("reports")
        except (ValueError, TypeError) as error:
            self._dead.append(DeadRow(f"report: {error}", kind="report", at=row.at, source=row.aggregator or ""))

    def _late(self, row: Row) -> None:
        """Applies a late row at once and counts for how long its query was computed without it."""
        watermark = self._life.watermark or 0
        self._count("late")
        placed = self._placed(row)
        if placed is not None:
            query, _ = query_and_group(placed[0].query.name)
            self._life.lost[query] = self._life.lost.get(query, 0) + watermark - row.at
        self._apply(row._replace(at=watermark))
        self._silences(watermark)
        self._settle(watermark)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _apply(self, row: Row) -> None:
        alive, epoch = self._alive[row.source], epoch_of(row.sequence)
        if epoch < alive.epoch:
            self._count("duplicates")
            return
        self._count(row.kind)
        if epoch > alive.epoch:
            alive.restart(epoch, row.through)
            for standing in self._standing.values():
                if standing.restarted(row.source):
                    self._saying.touch(standing.query.name)
        alive.heard = max(alive.heard, row.heard)
        if alive.silent and alive.heard + self._lease >= row.at:
            self._returned(row.source)
        if row.kind != "heartbeat" and row.key != PRESENCE:
            self._tell(row)

    def _returned(self, name: str) -> None:
        self._alive[name].silent = self._alive[name].unproven = False
        self._trust(name, True)
        self._planner.mark_returned(name)
        self._life.look, self._life.gap = self._life.passed + 1, 1

    def _tell(self, row: Row) -> None:
        """Applies a row to its part."""
        placed = self._placed(row)
        if placed is None:
            self._count("strays")
            return
        standing, place = placed
        slot = read_part_key(row.key)[2]
        if row.sequence <= standing.sequences.get(slot, 0):
            self._count("duplicates")
            return
        name = standing.query.name
        if not standing.knows(slot, place, row.grant):
            self._count("strays")
            if row.grant > standing.newest(slot, place):  # a foreign plan: the aggregator no longer serves this one
                standing.doubt(place)
        elif row.kind == "gone":
            standing.sequences[slot] = row.sequence
            standing.doubt(place)
        else:
            standing.refresh(slot, place, row.value, row.sequence, row.grant)
            if standing.retire():
                self._announce(name)
        self._saying.touch(name)

    # -- plans -----------------------------------------------------------------------------------------------------

    def _adopt(self, changed: Mapping[str, AnnouncedPlan]) -> None:
        for name, said in changed.items():
            standing = self._standing[name]
            standing.query = self._planner.queries[name]
            number = self._next_version()
            silent = {aggregator: None for aggregator, alive in self._alive.items() if not alive.trusted}
            if standing.take(said, number, silent):
                self._count("plans")
                self._announce(name)
            self._saying.touch(name)
            self._saying.planned(name)

    def _announce(self, name: str) -> None:
        """Publishes the whole plan of a query for the aggregators."""
        self._count("grants")
        self._saying.announce(name, self._next_version(), list(self._standing[name].wanted()))

    def _tell_levels(self, name: str, ask: Callable[[int], bool]) -> None:
        """Gives levels to the parts of a query or takes them back (`ask`), under the next version."""
        if ask(version(self._life.epoch, self._life.issued + 1)):
            self._life.issued += 1
            self._count("levels")
            self._announce(name)

    def _next_version(self) -> int:
        self._life.issued += 1
        return version(self._life.epoch, self._life.issued)

    # -- statements ------------------------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        rows = statement_rows(payload, self._dead)
        if self._life.watermark is None:
            self._early += rows
        else:
            self._take_statements(rows)

    def _take_statements(self, rows: Sequence[tuple[str, str]]) -> None:
        """Applies statements in order; they take effect just after the watermark."""
        take_statements(rows, self._statement, self._dead)
        self._settle(self._life.watermark or 0)

    def _statement(self, request: str, statement: Statement) -> None:
        owner = owner_of(statement, self._catalogue)
        outcome = self._catalogue.apply(statement)
        if owner != self._stream.name:
            return
        message = outcome.message
        if outcome.changed:
            message += self._carry_out(statement)
        reply = {"request": request, "key": statement.about, "at": self._life.watermark or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": message})

    def _carry_out(self, statement: Statement) -> str:
        """Carries out an accepted statement; returns what to add to the reply."""
        match statement:
            case CreateQuery(name=name, select=AggregateSelect() as select):
                for query in aggregates(name, select, self._stream):
                    self._standing[query.name] = Standing(query)
                    self._saying.touch(query.name)
                    self._adopt(self._planner.add(query))
                return self._remark(name)
            case AlterQuery(name=name, within=within):
                for instance in self._instances(name):
                    self._alter(instance, within)
                return self._remark(name)
            case Drop(what="query", name=name):
                self._settle(self._life.watermark or 0)
                for instance in self._instances(name):
                    del self._standing[instance]
                    self._planner.remove(instance)
                    self._saying.forget(instance, self._next_version(), self._life.watermark or 0)
                self._life.lost.pop(name, None)
        return ""

    def _alter(self, instance: str, within: float) -> None:
        if within > 0:
            self._adopt(self._planner.alter(instance, within))
        query = self._standing[instance].query
        self._standing[instance].query = Aggregate(query.name, query.fn, query.weights, within)
        self._saying.touch(instance)

    def _instances(self, name: str) -> list[str]:
        return [instance for instance in self._standing if query_and_group(instance)[0] == name]

    def _remark(self, name: str) -> str:
        refused = [self._standing[instance].refused for instance in self._instances(name)]
        return "".join(f"; but for now: {why}" for why in refused if why)

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _settle(self, at: int) -> None:
        for name in self._saying.touched:
            self._tell_levels(name, self._standing[name].take_back)
        self._saying.settle(self._standing, at, self._withheld)

    @property
    def _withheld(self) -> frozenset[str]:
        """The queries that withhold their answers while these are not settled."""
        selects = {query.name: query.select for query in self._catalogue.queries_over(self._stream.name)}
        return frozenset(
            name for name, s in selects.items() if isinstance(s, AggregateSelect) and s.otherwise == "withhold"
        )

    def _count(self, what: str, number: int = 1) -> None:
        self._life.tally[what] += number

    def _say(self) -> list[Output]:
        name, life = self._stream.name, self._life
        outputs = self._saying.take(name)
        self._count("dead", sum(row.count for row in self._dead))
        outputs += dead_letter_and_reply_outputs(name, self._dead, self._replies)
        self._dead, self._replies = [], []
        if life.watermark is not None and life.passed > life.reported:
            life.reported = life.passed
            outputs.append(self._status(life.watermark))
        return outputs

    def _status(self, watermark: int) -> Output:
        parts = [part for standing in self._standing.values() for part in standing.wanted()]
        sources = {
            name: {
                "heard": alive.heard,
                "epoch": alive.epoch,
                "items": len({item for part in parts if part.aggregator == name for item in part.weights}),
                "stale": alive.silent,
                "skew": 0,
                "late": alive.late,
            }
            for name, alive in self._alive.items()
        }
        pace = self._life.pace * SECOND / self._interval
        summary: dict[str, Any] = {"shard": self._shard, "watermark": watermark, "epoch": self._life.epoch}
        summary |= {**self._life.tally, "updates_per_second": pace}
        return network_status(
            self._stream,
            summary | {"sources": sources},
            self._catalogue.queries_over(self._stream.name),
            self._standing,
            self._planner,
            self._saying.take_planned(),
            self._life.lost,
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The state as bytes. Between batches no outputs are pending, so it contains none."""
        arrays, planner = self._planner.state()
        values = [
            planner,
            [encode(statement) for statement in self._catalogue.statements()],
            {name: [list(one.query.weights.items()), one.query.fn, one.query.within, one.state(self._network)]
             for name, one in self._standing.items()},
            [[query.name, query.fn, list(query.weights.items()), query.within]
             for query in self._planner.queries.values()],
            {name: vars(alive) for name, alive in self._alive.items()},
            vars(self._life),
            self._early,
            [list(row) for row in self._arrived],
            [list(row) for row in self._waiting],
            [list(row) for row in self._reports],
            self._saying.state(),
            self._clock_rows.state(),
        ]  # fmt: skip
        return snapshots.pack(arrays, values)

    def load(self, snapshot: bytes) -> None:
        """Restores what `snapshot` returned, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        planner, statements, standing, queries, alive, life, early, arrived, waiting, reports, saying, clock = values
        self._clock_rows = Clock.load(clock)
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._learned = ReportedDynamics.from_state(arrays, planner["running"], self._network)
        asked = [Aggregate(name, fn, dict(weights), within) for name, fn, weights, within in queries]
        self._planner = Planner.from_state(arrays, planner, self._network, asked, self._planning, learned=self._learned)
        self._standing = {
            name: Standing.from_state(state, Aggregate(name, fn, dict(weights), within), self._network)
            for name, (weights, fn, within, state) in standing.items()
        }
        self._alive = {name: Alive(**{**one, "coming": tuple(one["coming"])}) for name, one in alive.items()}
        self._life = Life(**life)
        self._early = [(request, body) for request, body in early]
        self._arrived, self._waiting = ([Row(*row) for row in rows] for rows in (arrived, waiting))
        self._reports = [Reported(*row) for row in reports]
        self._saying.load(saying)


def _waiting_row(row: Row) -> WaitingRow:
    return WaitingRow(row.key, row.source, row.sequence)


def _waiting_report(report: Reported) -> WaitingRow:
    return WaitingRow("", report.aggregator or "", -report.at)
