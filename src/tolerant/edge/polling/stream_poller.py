"""Polls a stream of a log as its `CREATE STREAM … FROM 'http://…'` says and its queries need (`specs/2-polling.md` §6).

Ticks are those of the wall clock: tick n begins n ticks after 1970. Statements and other pollers' pulls are read from
the log before each one, so queries come, go and change while it runs. A poller that starts takes the model that it or
another of the stream kept last in `models.<stream>`, if there is one, and reads on from where that one was, statements
and pulls in their order: so it goes on with what was known when the last one stopped.
"""

from __future__ import annotations

import asyncio
import base64
import os
import zlib
from collections.abc import Awaitable, Callable

from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.polling.endpoint import Endpoint
from tolerant.edge.polling.hosts import Limits
from tolerant.edge.polling.http_poller import Counts, HttpPoller
from tolerant.edge.polling.sinks import LogSink
from tolerant.kernels import snapshots
from tolerant.polling import Poller
from tolerant.polling.following import learn, reach
from tolerant.queries import Aggregate
from tolerant.sql import Catalogue, CreateStream, decode, encode
from tolerant.sql.polled import PolledQueries, poller_options
from tolerant.sql.wire import statements_in
from tolerant.streams import SECOND, Stream, key_parts
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.log import QUERIES, START, Entry
from tolerant.transport.pulls import read_pulls, topic_of
from tolerant.transport.rows import compacted

KEEP = 60.0
"""Seconds between two times at which the model is kept: so much is learned again after a crash."""

_MODEL = "model"  # the key: every poller of a stream knows what all of them know


class StreamPoller:
    """Asks for the items of one stream. `part` (k, n): this is the k-th of n pollers that share it by hash of the item.

    name: who this is, as of `Source`: the same after a restart, different from every other poller of the stream.
    clock: microseconds since 1970. sleep: waits for so many seconds of that clock.

    Raises:
        LookupError: the log has no such stream.
        ValueError: the stream is not polled, or cannot be as it says.
    """

    def __init__(
        self,
        stream: str,
        log: Log,
        name: str | None = None,
        *,
        part: tuple[int, int] = (1, 1),
        clock: Callable[[], int] = wall_clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timeout: float = 10.0,
    ) -> None:
        self.stream = find_stream(log, stream, timeout)
        if not self.stream.polled:
            raise ValueError(f"stream {stream} is not polled: it was created without FROM 'http://…'")
        if not 1 <= part[0] <= part[1]:
            raise ValueError(f"part must be (k, n) with 1 <= k <= n, got {part}")
        self._log, self._part, self._clock, self._sleep = log, part, clock, sleep
        self._name = name or f"{default_name()}/{part[0]}"
        self._endpoint, self._headers = endpoint_of(self.stream), authorization(self.stream)
        self._queries = PolledQueries(self.stream)
        self._catalogue = Catalogue()
        self._position = self._begun = START
        self._stopping = self._altered = False
        self.poller = Poller(**poller_options(self.stream))
        self.counts = Counts()
        self.http: HttpPoller | None = None
        """What makes the requests, while it runs."""

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, seconds: float | None = None, ready: Callable[[int], None] | None = None) -> None:
        """Poll until `stop` is called, the time is over or the stream is dropped. `ready` is told the number of items.

        Raises:
            Exception: pulls cannot be handed on, since the log cannot be used say.
        """
        warm()
        sink = LogSink(self.stream.name, self._log, self._name)
        self.recall()
        options = self.stream.options
        limits = Limits(options.at_once, options.per_second or None, options.timeout / SECOND)
        end = None if seconds is None else self._clock() + int(seconds * SECOND)
        async with HttpPoller(
            self._endpoint, self.poller, sink, tick=options.tick / SECOND, limits=limits, mine=self._is_mine,
            headers=self._headers, anywhere=options.redirects == "any", now=self._clock,
        ) as http:  # fmt: skip
            self.http, self.counts = http, http.counts
            if ready:
                ready(len(self.poller.items))
            kept = self._clock()
            while not self._stopping and (end is None or self._clock() < end):
                self.follow()
                if self.stream.name not in self._catalogue.streams:
                    break
                tick = self._clock() // options.tick
                if self.poller.now is None or tick > self.poller.now:
                    http.step(tick)
                if self._clock() - kept > KEEP * SECOND:
                    self.keep()
                    kept = self._clock()
                await self._sleep(max(0.0, ((tick + 1) * options.tick - self._clock()) / SECOND))
        if self.stream.name in self._catalogue.streams:
            self.keep()

    def stop(self) -> None:
        """Let `run` return at the next tick."""
        self._stopping = True

    def keep(self) -> None:
        """Keep the model in the log, for whoever polls this stream next."""
        arrays, values = self.poller.state()
        body = snapshots.pack(arrays, [encode(CreateStream(self.stream)), values])
        self._log.append(f"models.{self.stream.name}", compacted([(_MODEL, self._position, body)]))

    def recall(self) -> None:
        """Take the model that was kept last, and learn what the log has since."""
        known = self._kept()
        for entry in self._log.read(QUERIES, START):
            if entry.position <= known:
                self._statements(entry)
        self._altered, self._position = known == START, known
        self.follow()
        self._begun = self._position

    def _kept(self) -> int:
        """Become the model that was kept, if it is of this very stream; the position that it has read the log to."""
        record = self._log.latest(f"models.{self.stream.name}", _MODEL)
        if record is None:
            return START
        try:
            arrays, (stream, values) = snapshots.unpack(record.body)
            if decode(stream) == CreateStream(self.stream):
                self.poller.load(arrays, values)
                return record.version
        except (ValueError, LookupError, TypeError, ArithmeticError, zlib.error, RecursionError):
            pass  # of another release: the pulls say all of it again
        self.poller = Poller(**poller_options(self.stream))
        return START

    # -- following the log -------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Take what has come into the log: statements, and pulls but for those that this poller made since it began."""
        for entry in self._log.read([QUERIES, topic_of(self.stream.name)], self._position):
            self._position = entry.position
            if entry.topic == QUERIES:
                self._statements(entry)
            else:
                self._pulls(entry)
        self._arrange()

    def _statements(self, entry: Entry) -> None:
        for statement in statements_in(entry.payload):
            self._altered |= self._catalogue.apply(statement).changed

    def _pulls(self, entry: Entry) -> None:
        try:
            pulls, _ = read_pulls(entry.payload)
        except ValueError:
            return  # a pipeline says so
        self._arrange()
        replaying = self._begun == START
        ahead = self._clock() + self.stream.options.lease  # what is of a time to come was not pulled by anybody
        for pull in (pull for pull in pulls if pull.at <= ahead):
            if replaying or pull.source != self._name:
                if replaying:
                    for _ in reach(self.poller, pull.at // self.stream.options.tick):
                        pass
                learn(self.poller, pull)

    def _arrange(self) -> None:
        """Have the queries that the statements so far leave standing."""
        if self._altered:
            self._altered = False
            wanted = self._queries.of(self._catalogue)
            self.poller.rearrange(wanted, self._servers(wanted))

    def _servers(self, queries: list[Aggregate]) -> dict[str, str] | None:
        """Where items share requests: each one's server, so that those that go together are decided together."""
        if self._endpoint.batch == 1 or self.stream.options.chooser != "risk":
            return None
        items = dict.fromkeys(item for query in queries for item in query.weights)
        return {item: self._endpoint.asks([item])[0].host for item in items}

    def _is_mine(self, item: str) -> bool:
        number, count = self._part
        return zlib.crc32(item.encode()) % count == number - 1


def endpoint_of(stream: Stream) -> Endpoint:
    """Where the items of a polled stream are. `{key}` stands for the whole key; else each column has its place."""
    assert stream.uri is not None
    options = stream.options
    if "{key}" in stream.uri and "key" not in stream.key:
        return Endpoint(stream.uri, options.path, key=("key",), batch=options.batch)
    types = stream.key_types
    return Endpoint(
        stream.uri, options.path, key=stream.key, parts=lambda item: key_parts(item, types), batch=options.batch
    )


def authorization(stream: Stream) -> dict[str, str]:
    """The header that the stream's credentials go into: user:password as Basic, anything else as a Bearer token.

    Raises:
        ValueError: the environment variable is not set, or cannot be sent; its value is not said.
    """
    if not stream.options.credentials:
        return {}
    name = stream.options.credentials.removeprefix("env:")
    secret = os.environ.get(name, "")
    if not secret:
        raise ValueError(f"stream {stream.name} has credentials in the environment variable {name}, which is not set")
    if not (secret.isprintable() and secret.isascii()):
        raise ValueError(f"the environment variable {name} must hold printable ASCII characters only")
    if ":" not in secret:
        return {"Authorization": f"Bearer {secret}"}
    return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}


def warm() -> None:
    """Have compiled what deciding needs, before time counts: the first time on a machine takes a while."""
    poller = Poller([Aggregate.over("warm", "sum", ["a"], 1.0, 0.9)], "risk", calibrated=True, states=3, window=2)
    for tick in range(4):
        for item in poller.due(tick):
            poller.pulled(item, float(tick), tick)
