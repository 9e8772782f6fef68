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
from tolerant.spark.hosting import Output, Replayed
from tolerant.spark.intake import KINDS, DeadRow
from tolerant.spark.kinds.polled_saying import Saying, polled_status
from tolerant.spark.kinds.statements import owner_of, said_letters, statement_rows, take_statements
from tolerant.sql import Catalogue, decode, encode
from tolerant.sql.polled import PolledQueries, poller_options, remark
from tolerant.sql.statements import AggregateSelect, CreateQuery, Statement
from tolerant.streams import Stream
from tolerant.transport.log import QUERIES, Entry
from tolerant.transport.pulls import Pull, read_pulls, topic_of
from tolerant.transport.rows import NO_TIME, are_updates, unpack

_TALLY = (*KINDS[:-1], "grants", "values", "unchanged", "failed", "late", "dead", "duplicates", "bytes")


class PolledShard(Replayed):
    """`Hosted` by Spark; see the module. A polled stream has one shard."""

    def __init__(self, stream: Stream, shard: int = 0) -> None:
        self._stream, self._shard, self._tick = stream, shard, stream.options.tick
        self._poller = Poller(**poller_options(stream))
        self._catalogue = Catalogue()
        self._queries = PolledQueries(stream)
        self._saying = Saying()
        self._altered = False
        self._horizon: int | None = None
        self._arrived: list[Pull] = []  # since the last clock row
        self._waiting: list[Pull] = []  # for their time
        self._overdue: frozenset[str] = frozenset()
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
            if entry.topic == QUERIES:
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
            good, bad = read_pulls(payload)
        except ValueError as error:
            self._dead.append(DeadRow(str(error), payload=payload[:4096]))
            return
        self._dead += [_dead(pull, reason) for pull, reason in bad]
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
            batch = unpack(payload)
            if not are_updates(batch):
                raise ValueError("columns must be those of updates")
        except ValueError as error:
            self._dead.append(DeadRow(str(error), payload=payload[:4096]))
            return
        columns = (batch.column(name).to_pylist() for name in ("kind", "at", "source", "key"))
        for kind, at, source, key in zip(*columns, strict=True):
            if kind not in KINDS or at is None or source is None:
                self._dead.append(DeadRow(f"kind must be one of {', '.join(KINDS)}, at and source not null", key=key))
            elif kind != "clock":
                self._tally[kind] += 1
                self._heard[source] = max(self._heard.get(source, at), at)
            elif at != NO_TIME:
                self._pass(at)

    # -- time ------------------------------------------------------------------------------------------------------

    def _pass(self, clock: int) -> None:
        """A clock row: everything up to a latency before it has arrived."""
        ahead = clock + self._stream.options.lease
        for pull in self._arrived:
            if pull.at > ahead:
                reason = f"at is {pull.at - clock} µs ahead of the pipeline's clock, more than a lease"
                self._dead.append(_dead(pull, reason))
            else:
                self._waiting.append(pull)
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
            overdue = self._poller.overdue()
            if overdue != self._overdue:
                self._saying.touch(overdue ^ self._overdue)
                self._overdue = overdue
            self._saying.settle(self._poller, now * self._tick)

    def _learn(self, pull: Pull) -> None:
        self._heard[pull.source] = max(self._heard.get(pull.source, pull.at), pull.at)
        self._tally["values" if pull.kind == "value" else pull.kind] += 1
        if not learn(self._poller, pull):
            return
        if pull.kind == "failed":
            self._reasons[pull.item] = pull.reason
        else:
            self._reasons.pop(pull.item, None)
            self._first.setdefault(pull.item, pull.tick)
            self._saying.touch((pull.item,))
        if pull.item in self._overdue:
            self._overdue = self._poller.overdue()

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
        self._overdue = self._poller.overdue()
        self._saying.arrange(queries, _withheld(self._catalogue), self._horizon or 0)

    # -- saying ----------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs = self._saying.take()
        name = self._stream.name
        self._tally["dead"] += len(self._dead)
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
            [self._altered, self._horizon, self._reported, self._tally],
            [[asdict(pull) for pull in pulls] for pulls in (self._arrived, self._waiting)],
            [sorted(self._overdue), self._first, self._reasons, self._heard],
        ]
        return snapshots.pack(arrays, values)

    def load(self, snapshot: bytes) -> None:
        """Become what `snapshot` said, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        poller, statements, saying, plain, pulls, known = values
        self._poller.load(arrays, poller)
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._altered, self._horizon, self._reported, self._tally = plain
        self._arrived, self._waiting = ([Pull(**pull) for pull in each] for each in pulls)
        overdue, self._first, self._reasons, self._heard = known
        self._overdue = frozenset(overdue)
        self._saying.load(saying, self._poller.queries)


def _withheld(catalogue: Catalogue) -> frozenset[str]:
    """The queries that say nothing while they cannot keep their promise."""
    selects = {name: query.select for name, query in catalogue.queries.items()}
    return frozenset(
        name for name, s in selects.items() if isinstance(s, AggregateSelect) and s.otherwise == "withhold"
    )


def _dead(pull: Pull, reason: str) -> DeadRow:
    value = pull.value if isinstance(pull.value, float) else 0.0
    return DeadRow(reason, kind=pull.kind, key=pull.item, at=pull.at, source=pull.source, value=value)
