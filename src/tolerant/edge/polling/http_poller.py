"""The asynchronous HTTP poller: starts the requests that are due at each tick, and blocks on none."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp

from tolerant.edge.polling.endpoint import Endpoint, ItemRequest
from tolerant.edge.polling.fetcher import Fetcher
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.outcomes import Dropped, Failed, FetchedValues, Outcome, Suspended, Unchanged
from tolerant.edge.polling.sinks import PullSink
from tolerant.polling import Poller
from tolerant.queries import Aggregate
from tolerant.transport.common import wall_clock
from tolerant.transport.pulls import Pull

SEND_AFTER = 0.05
"""Seconds that finished pulls wait for others, so that the sink gets them in one call."""


@dataclass
class PullCounts:
    """Requests made so far, and pulls by their outcome."""

    requests: int = 0
    values: int = 0
    unchanged: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def pulls(self) -> int:
        """Pulls that returned a value, changed or not."""
        return self.values + self.unchanged


class HttpPoller:
    """Polls the items of queries over HTTP as `tolerant.polling.Poller` schedules them, and writes the pulls to a sink.

    endpoint: the addresses of the items. queries: the queries over them; or a given `Poller`, for instance restored.
    sink: the destination of pulls. tick: seconds. limits: of every server; `hosts` has those of single ones, by
    `scheme://host:port`. clock: monotonic seconds. options: keywords of `Poller`; the chooser is "risk" by default.
    mine: which items to request; the others, which another poller requests, only count in the schedule. headers: sent
    with each request (a password, say), only to the endpoint's own server. anywhere: redirects to other servers are
    followed, without those headers. now: the event time of pulls, microseconds.

    Requests continue while later ticks begin; an item has at most one request under way. A failed pull is retried after
    1, 2, 4, … ticks. From a server that is down one item at a time is requested, and all again as soon as it responds.
    Whatever a server does, the outcome is failed pulls of the requested items. Use it in an `async with`.
    """

    def __init__(  # noqa: PLR0913
        self,
        endpoint: Endpoint,
        queries: Iterable[Aggregate] | Poller,
        sink: PullSink,
        *,
        tick: float = 1.0,
        limits: Limits | None = None,
        hosts: dict[str, Limits] | None = None,
        clock: Callable[[], float] = time.monotonic,
        mine: Callable[[str], bool] | None = None,
        headers: Mapping[str, str] | None = None,
        anywhere: bool = False,
        now: Callable[[], int] = wall_clock,
        **options: Any,
    ) -> None:
        if not (tick > 0 and math.isfinite(tick)):
            raise ValueError(f"tick must be a positive number of seconds, got {tick}")
        if not isinstance(queries, Poller):
            listed = list(queries)
            options.setdefault("chooser", "risk")
            if endpoint.batch > 1 and options["chooser"] == "risk":
                names = dict.fromkeys(item for query in listed for item in query.weights)
                options.setdefault("servers", dict.fromkeys(names, endpoint.host))
            self.poller = Poller(listed, **options)
        elif options:
            raise ValueError(f"options are for a poller that is made here, got {', '.join(options)} with a ready one")
        else:
            self.poller = queries
        self.counts = PullCounts()
        self._endpoint, self._sink, self._tick, self._clock = endpoint, sink, tick, clock
        self._limits, self._own_limits = limits or Limits(), dict(hosts or {})
        self._hosts: dict[str, Host] = {}
        self._mine, self._headers, self._anywhere, self._now = mine, dict(headers or {}), anywhere, now
        self._unsent: list[Pull] = []
        self._sending: asyncio.Task[None] | None = None
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._failure: BaseException | None = None
        self._fetchers: dict[str, Fetcher] = {}

    async def __aenter__(self) -> HttpPoller:
        # Connection limits are per server, in `Host`; the library's own would only hide what waits for what.
        # Bodies are decompressed in `Fetcher`, up to its limit; and cookies must not change later requests.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Accept-Encoding": "gzip, deflate"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        try:
            await self._send()
        finally:
            self._sink.close()

    async def run(self, ticks: int | None = None, first: int | None = None) -> None:
        """Run for `ticks` ticks, or for ever. first: number of the first tick; default: the next one."""
        begun = self._clock()
        number = first if first is not None else 0 if self.poller.now is None else self.poller.now + 1
        done = 0
        while ticks is None or done < ticks:
            await asyncio.sleep(max(0.0, begun + done * self._tick - self._clock()))
            self.step(number + done)
            # A process that was delayed skips ticks instead of catching up with them.
            done = max(done + 1, math.floor((self._clock() - begun) / self._tick))

    def step(self, tick: int) -> list[ItemRequest]:
        """Begin the requests that are due at this tick, and return them.

        Raises:
            Exception: what the sink raised since the last step.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        due = self._requestable([item for item in self.poller.due(tick) if self._is_free(item)], tick)
        begun = []
        for request in self._endpoint.requests(due):
            host = self._host(request.host)
            if host.suspended:
                self._wait(request, tick, host)
            elif not host.down:
                begun.append(self._begin(request, host, tick))
        for host in self._hosts.values():
            if host.down and not host.suspended:
                host.forget([item for item in host.items if item not in self.poller])
                probed = host.probe([item for item in host.items if self._is_free(item)], tick)
                if probed is not None:
                    begun.append(self._begin(self._endpoint.requests([probed])[0], host, tick, probe=True))
        return begun

    def _is_free(self, item: str) -> bool:
        """Return whether this poller requests the item, and no request for it is under way."""
        return item not in self._under_way and (self._mine is None or self._mine(item))

    def _requestable(self, items: list[str], tick: int) -> list[str]:
        """Return the items that have an address; the others fail."""
        refusals = {item: self._endpoint.refusal(item) for item in items}
        at = self._now()
        self._enqueue([self._fail(item, tick, at, why) for item, why in refusals.items() if why is not None])
        return [item for item, why in refusals.items() if why is None]

    def _begin(self, request: ItemRequest, host: Host, tick: int, *, probe: bool = False) -> ItemRequest:
        self._under_way.update(request.items)
        host.requested(request.items)
        task = asyncio.create_task(self._pull(request, host, tick, probe))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return request

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    async def drain(self) -> None:
        """Return when no request is under way and the sink has accepted all pulls."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._send()
        except Exception as error:
            self._failure = error

    def _enqueue(self, pulls: list[Pull]) -> None:
        """Queue pulls for the sink: written one by one, a thousand of them would keep the log busy for seconds."""
        self._unsent += pulls
        if self._sending is None and pulls:
            self._sending = asyncio.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        await asyncio.sleep(SEND_AFTER)
        try:
            while self._unsent:
                pulls, self._unsent = self._unsent, []
                await asyncio.to_thread(self._sink.write, pulls)
        except Exception as error:
            self._failure = error
        finally:
            self._sending = None

    async def _send(self) -> None:
        """Write all queued pulls to the sink now."""
        if self._sending is not None:
            await self._sending
        pulls, self._unsent = self._unsent, []
        if pulls:
            self._sink.write(pulls)

    async def _pull(self, request: ItemRequest, host: Host, tick: int, probe: bool) -> None:
        conditional = all(self._newest(item) is not None for item in request.items)
        try:
            outcome = await self._fetcher(request.host).fetch(request, host, conditional=conditional, probe=probe)
        finally:
            self._under_way.difference_update(request.items)
        self.counts.requests += not isinstance(outcome, Dropped)
        items = tuple(item for item in request.items if item in self.poller)  # some may be gone by now
        self._enqueue(self._learn(ItemRequest(request.url, request.host, items), host, tick, outcome))

    def _learn(self, request: ItemRequest, host: Host, tick: int, outcome: Outcome) -> list[Pull]:
        at = self._now()
        if isinstance(outcome, Dropped):
            return []
        if isinstance(outcome, Suspended):
            host.suspend(outcome.seconds)
            self.counts.suspended += len(request.items)
            self._wait(request, tick, host)
            return [Pull(item, tick, at, "failed", None, outcome.reason) for item in request.items]
        if isinstance(outcome, Failed):
            host.failed(request.items, max(tick, self.poller.now or tick))
            return [self._fail(item, tick, at, outcome.reason) for item in request.items]
        if isinstance(outcome, FetchedValues) and not outcome.values:  # well-formed, but an error page, say
            host.failed(request.items, max(tick, self.poller.now or tick))
        elif host.answered(outcome.values if isinstance(outcome, FetchedValues) else request.items):
            self.poller.resume(host.items)
        until = tick + max(1, math.ceil(outcome.fresh / self._tick))
        pulls = []
        for item in request.items:
            newest = self._newest(item)
            if isinstance(outcome, FetchedValues) and item in outcome.values:
                value, kind = outcome.values[item], "value"
                self.counts.values += 1
            elif isinstance(outcome, Unchanged) and newest is not None:
                value, kind = newest[0], "unchanged"
                self.counts.unchanged += 1
            else:
                reason = outcome.missing.get(item, "missing") if isinstance(outcome, FetchedValues) else "nothing held"
                pulls.append(self._fail(item, tick, at, reason))
                continue
            self.poller.pulled(item, value, tick)
            if outcome.fresh > 0:
                self.poller.block(item, until)
            pulls.append(Pull(item, tick, at, kind, value))
        return pulls

    def _fail(self, item: str, tick: int, at: int, reason: str) -> Pull:
        self.counts.failed += 1
        self.poller.failed(item, max(tick, self.poller.now or tick))
        return Pull(item, tick, at, "failed", None, reason)

    def _wait(self, request: ItemRequest, tick: int, host: Host) -> None:
        """Request none of these items while their server wants a pause."""
        ticks = math.ceil(max(0.0, host.suspended_until - self._clock()) / self._tick)
        for item in request.items:
            self.poller.block(item, max(tick, self.poller.now or tick) + max(1, ticks))

    def _newest(self, item: str) -> tuple[float, int] | None:
        try:
            return self.poller.last_pull(item)
        except ValueError:  # no query refers to it any more
            return None

    def _host(self, name: str) -> Host:
        if name not in self._hosts:
            self._hosts[name] = Host(self._own_limits.get(name, self._limits), self._clock, self._tick)
        return self._hosts[name]

    def _fetcher(self, name: str) -> Fetcher:
        if self._session is None:
            raise RuntimeError("HttpPoller must be entered first: async with HttpPoller(…) as poller")
        if name not in self._fetchers:
            limits = self._own_limits.get(name, self._limits)
            self._fetchers[name] = Fetcher(
                self._session, self._endpoint, limits, headers=self._headers, anywhere=self._anywhere
            )
        return self._fetchers[name]
