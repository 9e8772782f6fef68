"""Polls a stream of a log as its `CREATE STREAM … FROM 'http://…'` defines and its queries need
(`docs/design/polling.md` §6).

Ticks are those of the wall clock: tick n begins n ticks after 1970. Statements and other pollers' pulls are read from
the log before each tick, so queries come, go and change while it runs. A poller that starts restores the newest model
of the stream in `models.<stream>`, if there is one, and reads statements and pulls after it in their order: so it
continues with what was known when the last poller stopped.
"""

from __future__ import annotations

import asyncio
import base64
import os
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from tolerant.edge.definition import default_name, find_stream
from tolerant.edge.polling.endpoint import Endpoint
from tolerant.edge.polling.hosts import Limits
from tolerant.edge.polling.http_poller import HttpPoller, PullCounts
from tolerant.edge.polling.sinks import LogSink
from tolerant.kernels.snapshots import Schema, State
from tolerant.polling import Poller
from tolerant.polling.pull_replay import advance_to, replay_pull
from tolerant.queries import Aggregate
from tolerant.sql import Catalogue, CreateStream, decode, encode
from tolerant.sql.polled_queries import PolledQueries, poller_options
from tolerant.sql.wire import statements_in
from tolerant.streams import SECOND, Stream, key_parts
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.log import START, Entry
from tolerant.transport.pulls import read_pulls
from tolerant.transport.rows import compacted
from tolerant.transport.topics import QUERIES, models_topic, pulls_topic

SAVE_EVERY = 60.0
"""Seconds between two saves of the model: this much is learned again after a crash."""

SCHEMA = Schema("polling model", 1)
_MODEL = "model"  # the key: every poller of a stream knows what all of them know
_MOST_BYTES = 1 << 30  # of a model, once it is decompressed
_MOST_TICKS = 10**7  # since a model was saved; for an older one replaying the pulls is faster


class StreamPoller:
    """Polls the items of one stream. `part` (k, n): this is the k-th of n pollers that share it by hash of the item.

    name: as for `Source`: the same after a restart, different from every other poller of the stream. clock:
    microseconds since 1970. sleep: waits for a number of seconds of that clock.

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
        self.counts = PullCounts()
        self.http: HttpPoller | None = None
        """Makes the requests, while `run` runs."""

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, seconds: float | None = None, ready: Callable[[int], None] | None = None) -> None:
        """Poll until `stop` is called, the time is over or the stream is dropped. `ready` gets the number of items.

        Raises:
            Exception: pulls cannot be written, for instance because the log cannot be used.
        """
        warm()
        sink = LogSink(self.stream.name, self._log, self._name)
        self.restore()
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
            saved = self._clock()
            while not self._stopping and (end is None or self._clock() < end):
                self.follow()
                if self.stream.name not in self._catalogue.streams:
                    break
                tick = self._clock() // options.tick
                if self.poller.now is None or tick > self.poller.now:
                    http.step(tick)
                if self._clock() - saved > SAVE_EVERY * SECOND:
                    self.save()
                    saved = self._clock()
                await self._sleep(max(0.0, ((tick + 1) * options.tick - self._clock()) / SECOND))
        if self.stream.name in self._catalogue.streams:
            self.save()

    def stop(self) -> None:
        """Make `run` return at the next tick."""
        self._stopping = True

    def save(self) -> None:
        """Save the model in the log, for the next poller of this stream."""
        body = SCHEMA.pack(State(stream=encode(CreateStream(self.stream)), poller=self.poller.state()))
        self._log.append(models_topic(self.stream.name), compacted([(_MODEL, self._position, body)]))

    def restore(self) -> None:
        """Restore the newest model, and learn from the log after it."""
        known = self._restored_model()
        for entry in self._log.read(QUERIES, START):
            if entry.position <= known:
                self._statements(entry)
        self._altered, self._position = known == START, known
        self.follow()
        self._begun = self._position

    def _restored_model(self) -> int:
        """Load the saved model, if it is of this stream; return the log position that it has read to, or START."""
        record = self._log.latest(models_topic(self.stream.name), _MODEL)
        if record is None or not START <= record.version <= self._log.end():
            return START
        options = _own_options(self.poller.state())
        try:
            stream, saved = SCHEMA.unpack(record.body, _MOST_BYTES).exactly("stream", "poller")
            if decode(stream) == CreateStream(self.stream) and _own_options(saved) == options:
                self.poller.load(saved)
                if self._is_recent(self.poller.now):
                    return record.version
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, zlib.error, RecursionError):
            pass  # of another release, or damaged: the pulls contain all of it
        self.poller = Poller(**poller_options(self.stream))
        return START

    def _is_recent(self, now: int | None) -> bool:
        """Return whether a model is not of the future, and recent enough to replay the ticks since one by one."""
        tick = (self._clock() + self.stream.options.lease) // self.stream.options.tick
        return now is None or 0 <= tick - now <= _MOST_TICKS

    # -- following the log -------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Apply new statements and pulls of the log, except the pulls that this poller made since it began."""
        for entry in self._log.read([QUERIES, pulls_topic(self.stream.name)], self._position):
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
            return  # a pipeline writes the dead letter
        self._arrange()
        replaying = self._begun == START
        ahead = self._clock() + self.stream.options.lease  # a pull of the future is not genuine
        for pull in (pull for pull in pulls if pull.at <= ahead):
            if replaying or pull.source != self._name:
                if replaying:
                    for _ in advance_to(self.poller, pull.at // self.stream.options.tick):
                        pass
                replay_pull(self.poller, pull)

    def _arrange(self) -> None:
        """Give the poller the queries of the catalogue, if statements have changed them."""
        if self._altered:
            self._altered = False
            wanted = self._queries.of(self._catalogue)
            self.poller.set_queries(wanted, self._servers(wanted))

    def _servers(self, queries: list[Aggregate]) -> dict[str, str] | None:
        """Return the server of each item where items share requests, so that they are scheduled together; else None."""
        if self._endpoint.batch == 1 or self.stream.options.chooser != "risk":
            return None
        return dict.fromkeys((item for query in queries for item in query.weights), self._endpoint.host)

    def _is_mine(self, item: str) -> bool:
        number, count = self._part
        return zlib.crc32(item.encode()) % count == number - 1


def _own_options(state: State) -> dict[str, Any]:
    """Return the options of a poller in a `Poller.state`, except servers, which follow from the queries."""
    return {name: value for name, value in state["options"].items() if name != "servers"}


def endpoint_of(stream: Stream) -> Endpoint:
    """Return the endpoint of a polled stream. `{key}` stands for the whole key; else each column has its place."""
    assert stream.uri is not None
    options = stream.options
    if "{key}" in stream.uri and "key" not in stream.key:
        return Endpoint(stream.uri, options.path, key=("key",), batch=options.batch)
    types = stream.key_types
    return Endpoint(
        stream.uri, options.path, key=stream.key, parts=lambda item: key_parts(item, types), batch=options.batch
    )


def authorization(stream: Stream) -> dict[str, str]:
    """Return the header for the stream's credentials: user:password as Basic, anything else as a Bearer token.

    Raises:
        ValueError: the environment variable is not set, or cannot be sent; the message does not show its value.
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
    """Compile the scheduling code before the first tick: on a new machine that takes a while."""
    poller = Poller([Aggregate.over("warm", "sum", ["a"], 1.0, 0.9)], "risk", calibrated=True, states=3, window=2)
    for tick in range(4):
        for item in poller.due(tick):
            poller.pulled(item, float(tick), tick)
