"""Aggregates over a polled stream, hosted: pulls and statements of the log in, answers, replies and status out.

The poller at the edge decides what to ask for; this shard runs the same core over the pulls that it wrote down, and so
knows what the poller knows: values, and how far to trust them. Answers are value ∓ within, marked with the fidelity
that they claim and the one delivered so far.

Everything is a function of the log (`specs/0-pipeline.md` §3): pulls wait for the horizon and apply in the order of
their `at`, a late one at once; statements take effect before time moves on. A clock row counts whoever wrote it, as for
tables. Answers are said as of the ends of ticks and of the horizon, not of every single pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tolerant.kernels import snapshots
from tolerant.polling import Poller
from tolerant.polling.following import learn, reach
from tolerant.spark.clocks import Clock
from tolerant.spark.hosting import Output, Replayed
from tolerant.spark.intake import KINDS, DeadRow, capped, dead_payload, readable_row
from tolerant.spark.kinds.networked_rows import read_rows, unusable
from tolerant.spark.kinds.polled_saying import Saying, polled_status
from tolerant.spark.kinds.skipping import letter, query_row, skip_statements, skipped_rows, why
from tolerant.spark.kinds.statements import owner_of, said_letters, statement_rows, take_statements
from tolerant.sql import Catalogue, Drop, decode, encode
from tolerant.sql.membership import query_and_group
from tolerant.sql.polled import PolledQueries, poller_options, remark
from tolerant.sql.statements import AggregateSelect, CreateQuery, Statement
from tolerant.streams import Limits, Stream
from tolerant.transport.log import QUERIES, Entry
from tolerant.transport.pulls import Pull, read_pulls, topic_of
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME

_TALLY = (*KINDS[:-1], "grants", "values", "unchanged", "failed", "late", "dead", "duplicates", "bytes")


class PolledShard(Replayed):
    """`Hosted` by Spark; see the module. A polled stream has one shard."""

    def __init__(self, stream: Stream, shard: int = 0) -> None:
        self._stream, self._shard, self._tick = stream, shard, stream.options.tick
        self._poller = Poller(**poller_options(stream))
        self._catalogue = Catalogue()
        self._queries = PolledQueries(stream)
        self._saying = Saying()
        self._limits, self._clock = stream.options.limits, Clock(stream.options.boundary)
        self._altered = False
        self._horizon: int | None = None
        self._arrived: list[Pull] = []  # since the last clock row
        self._waiting: list[Pull] = []  # for their time
        self._disturbed: frozenset[str] = frozenset()  # queries some item of which cannot be had
        self._first: dict[str, int] = {}  # the tick of each item's first pull
        self._reasons: dict[str, str] = {}  # why the last pull of an item failed
        self._heard: dict[str, int] = {}  # when each poller was last heard
        self._tally = dict.fromkeys(_TALLY, 0)
        self._reported = -1  # the period of the last status
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Entries of `updates.<stream>`, `pulls.<stream>` and `queries`, in the order of the log."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            elif entry.topic == topic_of(self._stream.name):
                self._pulls(entry.payload)
            else:
                self._rows(entry.payload)
        return self._say()

    @property
    def poller(self) -> Poller:
        """The core, as of the horizon."""
        return self._poller

    @property
    def horizon(self) -> int | None:
        """Everything up to this event time has been taken into account."""
        return self._horizon

    # -- rows ------------------------------------------------------------------------------------------------------

    def _pulls(self, payload: bytes) -> None:
        self._tally["bytes"] += len(payload)
        try:
            good, bad = read_pulls(payload, self._limits)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        good, strange = self._within_limits(good)
        self._bury([*bad, *strange])
        for pull in good:
            if self._horizon is not None and pull.at <= self._horizon:
                self._tally["late"] += 1
                self._arrange()
                self._learn(pull)
            else:
                self._arrived.append(pull)
        if self._horizon is not None:
            self._saying.settle(self._poller, self._horizon)

    def _rows(self, payload: bytes) -> None:
        """Time, and signs of life of the pollers: what their updates say, pulls say better."""
        self._tally["bytes"] += len(payload)
        try:
            rows = read_rows(payload, self._limits)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        refused = []
        for row in rows:
            reason = unusable(row, self._limits.key_length) or self._beyond(row.source)
            if reason:
                refused.append(readable_row(row._asdict(), reason, self._limits.key_length))
            elif row.kind != "clock":
                self._tally[row.kind] += 1
                self._hear(row.source, row.at)
            elif row.at != NO_TIME:
                times, wrong = self._clock.take(row.at)
                refused += wrong
                for at in times:
                    self._pass(at)
        self._dead += capped(refused, self._limits.dead_letters)

    def _hear(self, source: str, at: int) -> None:
        self._heard[source] = max(self._heard.get(source, at), at)

    def _beyond(self, source: str) -> str:
        """Why a poller is one too many; empty if it is not."""
        most = self._limits.sources
        full = source not in self._heard and len(self._heard) >= most
        return f"the stream has {most:,} sources, the most it may have" if full else ""

    def _within_limits(self, pulls: list[Pull]) -> tuple[list[Pull], list[tuple[Pull, str]]]:
        """The pulls of pollers that there may be, and the others."""
        judged = [(pull, self._beyond(pull.source)) for pull in pulls]
        return [pull for pull, reason in judged if not reason], [(pull, reason) for pull, reason in judged if reason]

    def _bury(self, pulls: Sequence[tuple[Pull, str]]) -> None:
        self._dead += capped([_dead(pull, reason) for pull, reason in pulls], self._limits.dead_letters)

    def _skip(self, skipped: Quarantined) -> None:
        """An entry in quarantine: of the items that its pulls are of nothing is claimed until the next pull."""
        self._dead.append(letter(skipped))
        if skip_statements(skipped, self._catalogue, self._statement):
            return
        for name in [name for name in self._new_queries() if skipped.drops(query_row(name))]:
            self._statement("", Drop("query", name))
        gone = [pull for pull in (*self._arrived, *self._waiting) if skipped.drops(_waiting_row(pull))]
        self._arrived = [pull for pull in self._arrived if pull not in gone]
        self._waiting = [pull for pull in self._waiting if pull not in gone]
        self._dead += [_dead(pull, why(skipped)) for pull in gone]
        named = {row.key for row in skipped_rows(skipped)} | {pull.item for pull in gone}
        for item in self._poller.items:
            if skipped.rows is None or item in named:
                self._poller.doubt(item)
                self._saying.touch((item,))
        self._overdue = self._poller.overdue()
        if self._horizon is not None:
            self._saying.settle(self._poller, self._horizon)

    def waiting_rows(self) -> list[WaitingRow]:
        """The pulls that wait for their time, and the queries that wait to be arranged."""
        pulls = [_waiting_row(pull) for pull in (*self._arrived, *self._waiting)]
        return [*pulls, *map(query_row, self._new_queries())]

    def _new_queries(self) -> list[str]:
        arranged = {query_and_group(query.name)[0] for query in self._poller.queries}
        over = (query.name for query in self._catalogue.queries_over(self._stream.name))
        return [name for name in over if self._altered and name not in arranged]

    # -- time ------------------------------------------------------------------------------------------------------

    def _pass(self, clock: int) -> None:
        """A clock row: everything up to a latency before it has arrived."""
        ahead = clock + self._stream.options.lease
        future = [pull for pull in self._arrived if pull.at > ahead]
        self._bury([(p, f"at is {p.at - clock} µs ahead of the pipeline's clock, more than a lease") for p in future])
        self._waiting += [pull for pull in self._arrived if pull.at <= ahead]
        self._arrived = []
        horizon = clock - self._stream.options.latency
        if self._horizon is not None and horizon <= self._horizon:
            return
        self._horizon = horizon
        self._arrange()
        due = sorted((p for p in self._waiting if p.at <= horizon), key=lambda p: (p.at, p.item, p.tick))
        if due:
            self._waiting = [pull for pull in self._waiting if pull.at > horizon]
        for pull in due:
            self._reach(pull.at // self._tick)
            self._learn(pull)
        self._reach(horizon // self._tick)
        self._saying.settle(self._poller, horizon)

    def _reach(self, tick: int) -> None:
        """Let the core come to a tick; what changed is said as of the ends of the ticks that it passes."""
        self._saying.end(self._poller, tick, self._tick)
        size = self._poller.options.window
        for before, now in reach(self._poller, tick):
            if before is not None and -(-before // size) * size < now:  # a window is over: fidelity was reckoned anew
                self._saying.touch_all()
            disturbed = self._poller.disturbed()
            self._saying.touch_queries(disturbed | self._disturbed)
            self._disturbed = disturbed
            self._saying.settle(self._poller, now * self._tick)

    def _learn(self, pull: Pull) -> None:
        self._hear(pull.source, pull.at)
        self._tally["values" if pull.kind == "value" else pull.kind] += 1
        if not learn(self._poller, pull):
            return
        if pull.kind == "failed":
            self._reasons[pull.item] = pull.reason
        else:
            self._reasons.pop(pull.item, None)
            self._first.setdefault(pull.item, pull.tick)
        self._saying.touch((pull.item,))

    # -- statements ------------------------------------------------------------------------------------------------

    def _statements(self, payload: bytes) -> None:
        take_statements(statement_rows(payload, self._dead), self._statement, self._dead)

    def _statement(self, request: str, statement: Statement) -> None:
        owner = owner_of(statement, self._catalogue)
        outcome = self._catalogue.apply(statement)
        if owner != self._stream.name:
            return
        message = outcome.message
        if outcome.changed:
            self._altered = True
            if isinstance(statement, CreateQuery) and isinstance(statement.select, AggregateSelect):
                message += remark(statement.select, self._stream)
        reply = {"request": request, "key": statement.about, "at": self._horizon or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": message})

    def _arrange(self) -> None:
        """Have the queries that the statements so far leave standing."""
        if not self._altered:
            return
        self._altered = False
        queries = self._queries.of(self._catalogue)
        self._poller.rearrange(queries)
        items = self._poller.items
        self._first = {item: self._first[item] for item in items if item in self._first}
        self._reasons = {item: self._reasons[item] for item in items if item in self._reasons}
        self._saying.arrange(queries, _withheld(self._catalogue), self._horizon or 0)

    # -- saying ----------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs = self._saying.take()
        name = self._stream.name
        self._tally["dead"] += sum(row.count for row in self._dead)
        outputs += said_letters(name, self._dead, self._replies)
        self._dead, self._replies = [], []
        period = (self._horizon or 0) // self._stream.options.boundary
        if self._horizon is not None and period > self._reported:
            self._reported = period
            outputs.append(self._status())
        return outputs

    def _status(self) -> Output:
        summary = {"shard": self._shard, "horizon": self._horizon, **self._tally, "sources": self._sources()}
        return polled_status(
            self._stream, self._catalogue, self._poller, self._saying, summary, self._first, self._reasons
        )

    def _sources(self) -> dict[str, dict[str, object]]:
        late = (self._horizon or 0) - self._stream.options.lease
        return {
            name: {"heard": heard, "epoch": 0, "items": 0, "stale": heard < late, "skew": 0}
            for name, heard in self._heard.items()
        }

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All of the state as bytes; nothing is left unsaid between batches."""
        arrays, poller = self._poller.state()
        values = [
            poller,
            [encode(statement) for statement in self._catalogue.statements()],
            self._saying.state(),
            [self._altered, self._horizon, self._reported, self._tally, self._clock.state()],
            [[asdict(pull) for pull in pulls] for pulls in (self._arrived, self._waiting)],
            [sorted(self._disturbed), self._first, self._reasons, self._heard],
        ]
        return snapshots.pack(arrays, values)

    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        poller, statements, saying, plain, pulls, known = values
        self._poller.load(arrays, poller)
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._altered, self._horizon, self._reported, self._tally, clock = plain
        self._clock = Clock.load(clock)
        self._arrived, self._waiting = ([Pull(**pull) for pull in each] for each in pulls)
        disturbed, self._first, self._reasons, self._heard = known
        self._disturbed = frozenset(disturbed)
        self._saying.load(saying, self._poller.queries)


def _withheld(catalogue: Catalogue) -> frozenset[str]:
    """The queries that say nothing while they cannot keep their promise."""
    selects = {name: query.select for name, query in catalogue.queries.items()}
    return frozenset(
        name for name, s in selects.items() if isinstance(s, AggregateSelect) and s.otherwise == "withhold"
    )


def _dead(pull: Pull, reason: str) -> DeadRow:
    value = pull.value if isinstance(pull.value, float) else 0.0
    return readable_row({**vars(pull), "key": pull.item, "value": value}, reason, Limits.key_length)


def _waiting_row(pull: Pull) -> WaitingRow:
    return WaitingRow(pull.item, pull.source, pull.tick)
