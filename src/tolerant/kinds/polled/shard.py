"""Hosts aggregates over a polled stream: reads pulls and statements from the log, writes answers, replies and status.

The poller at the edge decides which items to pull; this shard runs the same core over the pulls that the poller logged,
and so has the same state: values, and how far to trust them. Answers are value ∓ within, marked with the fidelity that
they claim and the one delivered so far.

Everything is a function of the log (`docs/design/pipeline.md` §3): pulls wait for the watermark and apply in the order
of their `at`, a late one at once; statements take effect before time advances. A clock row counts whoever wrote it, as
for tables. Answers are published as of the ends of ticks and of the watermark, not for every single pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tolerant.kernels import snapshots
from tolerant.kinds.network.rows import read_rows, unusable
from tolerant.kinds.polled.outputs import Saying, polled_status
from tolerant.pipeline.clocks import Clock
from tolerant.pipeline.hosting import Output, Replayed
from tolerant.pipeline.intake import KINDS, DeadRow, capped, dead_payload, readable_row
from tolerant.pipeline.quarantined_rows import letter, query_row, skip_statements, skipped_rows, why
from tolerant.pipeline.statements import dead_letter_and_reply_outputs, owner_of, statement_rows, take_statements
from tolerant.polling import Poller
from tolerant.polling.pull_replay import advance_to, replay_pull
from tolerant.sql import Catalogue, Drop, decode, encode
from tolerant.sql.membership import query_and_group
from tolerant.sql.polled import PolledQueries, poller_options, remark
from tolerant.sql.statements import AggregateSelect, CreateQuery, Statement
from tolerant.streams import Limits, Stream
from tolerant.transport.log import Entry
from tolerant.transport.pulls import Pull, read_pulls
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME
from tolerant.transport.topics import QUERIES, pulls_topic

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
        self._watermark: int | None = None
        self._arrived: list[Pull] = []  # since the last clock row
        self._waiting: list[Pull] = []  # for the watermark
        self._disturbed: frozenset[str] = frozenset()  # queries with an item that cannot be pulled
        self._first: dict[str, int] = {}  # the tick of each item's first pull
        self._reasons: dict[str, str] = {}  # why the last pull of an item failed
        self._heard: dict[str, int] = {}  # the time of each poller's last row
        self._tally = dict.fromkeys(_TALLY, 0)
        self._reported = -1  # the period of the last status
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []

    def take(self, batch: Sequence[Entry]) -> list[Output]:
        """Applies entries of `updates.<stream>`, `pulls.<stream>` and `queries`, in log order; returns the outputs."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._statements(entry.payload)
            elif entry.topic == pulls_topic(self._stream.name):
                self._pulls(entry.payload)
            else:
                self._rows(entry.payload)
        return self._say()

    @property
    def poller(self) -> Poller:
        """The core, as of the watermark."""
        return self._poller

    @property
    def watermark(self) -> int | None:
        """Event time up to which all rows have been applied; None before the first."""
        return self._watermark

    # -- rows ------------------------------------------------------------------------------------------------------

    def _pulls(self, payload: bytes) -> None:
        self._tally["bytes"] += len(payload)
        try:
            good, bad = read_pulls(payload, self._limits)
        except ValueError as error:
            self._dead.append(dead_payload(error, payload))
            return
        good, strange = self._within_limits(good)
        self._add_dead_letters([*bad, *strange])
        for pull in good:
            if self._watermark is not None and pull.at <= self._watermark:
                self._tally["late"] += 1
                self._arrange()
                self._replay_pull(pull)
            else:
                self._arrived.append(pull)
        if self._watermark is not None:
            self._saying.settle(self._poller, self._watermark)

    def _rows(self, payload: bytes) -> None:
        """Reads clock rows and signs of life of the pollers; ignores the values of updates, as pulls have them."""
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
        """Why a poller exceeds the limit of sources; empty if it does not."""
        most = self._limits.sources
        full = source not in self._heard and len(self._heard) >= most
        return f"the stream has {most:,} sources, the most it may have" if full else ""

    def _within_limits(self, pulls: list[Pull]) -> tuple[list[Pull], list[tuple[Pull, str]]]:
        """Splits pulls into those of pollers within the limit and the others with the reason."""
        judged = [(pull, self._beyond(pull.source)) for pull in pulls]
        return [pull for pull, reason in judged if not reason], [(pull, reason) for pull, reason in judged if reason]

    def _add_dead_letters(self, pulls: Sequence[tuple[Pull, str]]) -> None:
        self._dead += capped([_dead(pull, reason) for pull, reason in pulls], self._limits.dead_letters)

    def _skip(self, skipped: Quarantined) -> None:
        """Skips an entry in quarantine: the items of its pulls are unknown until their next pull."""
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
                self._poller.invalidate(item)
                self._saying.touch((item,))
        if self._watermark is not None:
            self._saying.settle(self._poller, self._watermark)

    def waiting_rows(self) -> list[WaitingRow]:
        """The pulls that wait for the watermark, and the queries that the poller does not have yet."""
        pulls = [_waiting_row(pull) for pull in (*self._arrived, *self._waiting)]
        return [*pulls, *map(query_row, self._new_queries())]

    def _new_queries(self) -> list[str]:
        arranged = {query_and_group(query.name)[0] for query in self._poller.queries}
        over = (query.name for query in self._catalogue.queries_over(self._stream.name))
        return [name for name in over if self._altered and name not in arranged]

    # -- time ------------------------------------------------------------------------------------------------------

    def _pass(self, clock: int) -> None:
        """Advances to a clock row: all rows up to one latency allowance before it have arrived."""
        ahead = clock + self._stream.options.lease
        future = [pull for pull in self._arrived if pull.at > ahead]
        self._add_dead_letters(
            [(p, f"at is {p.at - clock} µs ahead of the pipeline's clock, more than a lease") for p in future]
        )
        self._waiting += [pull for pull in self._arrived if pull.at <= ahead]
        self._arrived = []
        watermark = clock - self._stream.options.latency
        if self._watermark is not None and watermark <= self._watermark:
            return
        self._watermark = watermark
        self._arrange()
        due = sorted((p for p in self._waiting if p.at <= watermark), key=lambda p: (p.at, p.item, p.tick))
        if due:
            self._waiting = [pull for pull in self._waiting if pull.at > watermark]
        for pull in due:
            self._reach(pull.at // self._tick)
            self._replay_pull(pull)
        self._reach(watermark // self._tick)
        self._saying.settle(self._poller, watermark)

    def _reach(self, tick: int) -> None:
        """Advances the core to a tick; publishes changes as of the ends of the ticks that it passes."""
        self._saying.end(self._poller, tick, self._tick)
        size = self._poller.options.window
        for before, now in advance_to(self._poller, tick):
            if before is not None and -(-before // size) * size < now:  # a window has ended: fidelity was recomputed
                self._saying.touch_all()
            disturbed = self._poller.disturbed()
            self._saying.touch_queries(disturbed | self._disturbed)
            self._disturbed = disturbed
            self._saying.settle(self._poller, now * self._tick)

    def _replay_pull(self, pull: Pull) -> None:
        self._hear(pull.source, pull.at)
        self._tally["values" if pull.kind == "value" else pull.kind] += 1
        if not replay_pull(self._poller, pull):
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
        reply = {"request": request, "key": statement.about, "at": self._watermark or 0}
        self._replies.append(reply | {"accepted": outcome.accepted, "message": message})

    def _arrange(self) -> None:
        """Sets the poller's queries to those of the catalogue."""
        if not self._altered:
            return
        self._altered = False
        queries = self._queries.of(self._catalogue)
        self._poller.set_queries(queries)
        items = self._poller.items
        self._first = {item: self._first[item] for item in items if item in self._first}
        self._reasons = {item: self._reasons[item] for item in items if item in self._reasons}
        self._saying.arrange(queries, _withheld(self._catalogue), self._watermark or 0)

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _say(self) -> list[Output]:
        outputs = self._saying.take()
        name = self._stream.name
        self._tally["dead"] += sum(row.count for row in self._dead)
        outputs += dead_letter_and_reply_outputs(name, self._dead, self._replies)
        self._dead, self._replies = [], []
        period = (self._watermark or 0) // self._stream.options.boundary
        if self._watermark is not None and period > self._reported:
            self._reported = period
            outputs.append(self._status())
        return outputs

    def _status(self) -> Output:
        summary = {"shard": self._shard, "watermark": self._watermark, **self._tally, "sources": self._sources()}
        return polled_status(
            self._stream, self._catalogue, self._poller, self._saying, summary, self._first, self._reasons
        )

    def _sources(self) -> dict[str, dict[str, object]]:
        late = (self._watermark or 0) - self._stream.options.lease
        return {
            name: {"heard": heard, "epoch": 0, "items": 0, "stale": heard < late, "skew": 0}
            for name, heard in self._heard.items()
        }

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The state as bytes. Between batches no outputs are pending, so it contains none."""
        arrays, poller = self._poller.state()
        values = [
            poller,
            [encode(statement) for statement in self._catalogue.statements()],
            self._saying.state(),
            [self._altered, self._watermark, self._reported, self._tally, self._clock.state()],
            [[asdict(pull) for pull in pulls] for pulls in (self._arrived, self._waiting)],
            [sorted(self._disturbed), self._first, self._reasons, self._heard],
        ]
        return snapshots.pack(arrays, values)

    def load(self, snapshot: bytes) -> None:
        """Restores what `snapshot` returned, bit for bit."""
        arrays, values = snapshots.unpack(snapshot)
        poller, statements, saying, plain, pulls, known = values
        self._poller.load(arrays, poller)
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._altered, self._watermark, self._reported, self._tally, clock = plain
        self._clock = Clock.load(clock)
        self._arrived, self._waiting = ([Pull(**pull) for pull in each] for each in pulls)
        disturbed, self._first, self._reasons, self._heard = known
        self._disturbed = frozenset(disturbed)
        self._saying.load(saying, self._poller.queries)


def _withheld(catalogue: Catalogue) -> frozenset[str]:
    """The queries that withhold their answers while these are not settled."""
    selects = {name: query.select for name, query in catalogue.queries.items()}
    return frozenset(
        name for name, s in selects.items() if isinstance(s, AggregateSelect) and s.otherwise == "withhold"
    )


def _dead(pull: Pull, reason: str) -> DeadRow:
    value = pull.value if isinstance(pull.value, float) else 0.0
    return readable_row({**vars(pull), "key": pull.item, "value": value}, reason, Limits.key_length)


def _waiting_row(pull: Pull) -> WaitingRow:
    return WaitingRow(pull.item, pull.source, pull.tick)
