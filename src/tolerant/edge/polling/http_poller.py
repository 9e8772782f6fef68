"""The asynchronous poller: asks tick by tick for what is due, and waits for nobody."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp

from tolerant.edge.polling.endpoint import Ask, Endpoint
from tolerant.edge.polling.fetching import Fetcher
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.outcomes import Dropped, Failed, Outcome, Suspended, Unchanged, Values
from tolerant.edge.polling.sinks import PullSink
from tolerant.polling import Poller
from tolerant.queries import Aggregate
from tolerant.transport.common import wall_clock
from tolerant.transport.pulls import Pull

SEND_AFTER = 0.05
"""Seconds that what came of a request waits for others, to go on in one piece."""


@dataclass
class Counts:
    """What was done so far: requests made, and pulls by what came of them."""

    requests: int = 0
    values: int = 0
    unchanged: int = 0
    failed: int = 0
    suspended: int = 0

    @property
    def pulls(self) -> int:
        """Pulls that brought a value, changed or not."""
        return self.values + self.unchanged


class HttpPoller:
    """Polls the items of the queries over HTTP, as `tolerant.polling.Poller` decides, and hands on what comes.

    endpoint: where the items are. queries: what is asked about them; or a `Poller` of one's own, for instance restored.
    sink: where pulls go. tick: seconds. limits: of every server; `hosts` has those of single ones, by
    `scheme://host:port`. clock: seconds that only grow. options: keywords of `Poller`; the chooser is "risk" if none is
    given. mine: which items to ask for; the others, which somebody else asks for, only count in what is decided.
    headers: sent along, with a password say; only to the endpoint's own server. anywhere: redirects to other servers
    are followed, with none of those headers. now: the event time of pulls, microseconds.

    Requests are under way while the next ticks go on; an item is not asked for twice at a time. A pull that fails is
    tried again after 1, 2, 4, … ticks. A server that answers nothing any more is asked for one item at a time, and for
    all as soon as it does. Whatever a server does, it ends as failed pulls of the items asked for. Use it in an
    `async with`.
    """

    def __init__(
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
            asked = list(queries)
            options.setdefault("chooser", "risk")
            if endpoint.batch > 1 and options["chooser"] == "risk":
                names = dict.fromkeys(item for query in asked for item in query.weights)
                options.setdefault("servers", {item: endpoint.asks([item])[0].host for item in names})
            self.poller = Poller(asked, **options)
        elif options:
            raise ValueError(f"options are for a poller that is made here, got {', '.join(options)} with a ready one")
        else:
            self.poller = queries
        self.counts = Counts()
        self._endpoint, self._sink, self._tick, self._clock = endpoint, sink, tick, clock
        self._limits, self._own_limits = limits or Limits(), dict(hosts or {})
        self._hosts: dict[str, Host] = {}
        self._mine, self._headers, self._anywhere, self._now = mine, dict(headers or {}), anywhere, now
        self._unsent: list[Pull] = []
        self._sending: asyncio.Task[None] | None = None
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._trouble: BaseException | None = None
        self._fetchers: dict[str, Fetcher] = {}

    async def __aenter__(self) -> HttpPoller:
        # Limits are ours, per server; the library's own would only hide who waits for what.
        # Answers are unpacked here too, no more of them than is allowed; and no server has a say in what is sent next.
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
        """Go on tick by tick, for so many ticks or for ever. first: number of the first tick; default: the next one."""
        begun = self._clock()
        number = first if first is not None else 0 if self.poller.now is None else self.poller.now + 1
        done = 0
        while ticks is None or done < ticks:
            await asyncio.sleep(max(0.0, begun + done * self._tick - self._clock()))
            self.step(number + done)
            # A process that was held up leaves ticks out rather than running after them.
            done = max(done + 1, math.floor((self._clock() - begun) / self._tick))

    def step(self, tick: int) -> list[Ask]:
        """Begin what is due at this tick; the requests that were begun.

        Raises:
            Exception: what the sink raised since the last step: pulls that cannot be handed on are nobody's secret.
        """
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        due = self._askable([item for item in self.poller.due(tick) if self._is_free(item)], tick)
        begun = []
        for ask in self._endpoint.asks(due):
            host = self._host(ask.host)
            if host.suspended:
                self._wait(ask, tick, host)
            elif not host.down:
                begun.append(self._begin(ask, host, tick))
        for host in self._hosts.values():
            if host.down and not host.suspended:
                host.forget([item for item in host.items if item not in self.poller])
                probed = host.probe([item for item in host.items if self._is_free(item)], tick)
                if probed is not None:
                    begun.append(self._begin(self._endpoint.asks([probed])[0], host, tick, probe=True))
        return begun

    def _is_free(self, item: str) -> bool:
        """Whether an item is for this poller to ask for, and no request for it is under way."""
        return item not in self._asked and (self._mine is None or self._mine(item))

    def _askable(self, items: list[str], tick: int) -> list[str]:
        """Those of the items that have an address; the others fail."""
        refusals = {item: self._endpoint.refusal(item) for item in items}
        at = self._now()
        self._hand_on([self._fail(item, tick, at, why) for item, why in refusals.items() if why is not None])
        return [item for item, why in refusals.items() if why is None]

    def _begin(self, ask: Ask, host: Host, tick: int, *, probe: bool = False) -> Ask:
        self._asked.update(ask.items)
        host.asked(ask.items)
        task = asyncio.create_task(self._pull(ask, host, tick, probe))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return ask

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._trouble = task.exception()

    async def drain(self) -> None:
        """Return when no request is under way and the sink has taken what came of them."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._send()
        except Exception as error:
            self._trouble = error

    def _hand_on(self, pulls: list[Pull]) -> None:
        """Let the sink have these soon: one by one, a thousand of them would keep the log busy for seconds."""
        self._unsent += pulls
        if self._sending is None and pulls:
            self._sending = asyncio.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        await asyncio.sleep(SEND_AFTER)
        try:
            while self._unsent:
                pulls, self._unsent = self._unsent, []
                await asyncio.to_thread(self._sink.take, pulls)
        except Exception as error:
            self._trouble = error
        finally:
            self._sending = None

    async def _send(self) -> None:
        """Let the sink have everything now."""
        if self._sending is not None:
            await self._sending
        pulls, self._unsent = self._unsent, []
        if pulls:
            self._sink.take(pulls)

    async def _pull(self, ask: Ask, host: Host, tick: int, probe: bool) -> None:
        conditional = all(self._held(item) is not None for item in ask.items)
        try:
            outcome = await self._fetcher(ask.host).fetch(ask, host, conditional=conditional, probe=probe)
        finally:
            self._asked.difference_update(ask.items)
        self.counts.requests += not isinstance(outcome, Dropped)
        asked = tuple(item for item in ask.items if item in self.poller)  # some may be gone by now
        self._hand_on(self._learn(Ask(ask.url, ask.host, asked), host, tick, outcome))

    def _learn(self, ask: Ask, host: Host, tick: int, outcome: Outcome) -> list[Pull]:
        at = self._now()
        if isinstance(outcome, Dropped):
            return []
        if isinstance(outcome, Suspended):
            host.suspend(outcome.seconds)
            self.counts.suspended += len(ask.items)
            self._wait(ask, tick, host)
            return [Pull(item, tick, at, "failed", None, outcome.reason) for item in ask.items]
        if isinstance(outcome, Failed):
            host.failed(ask.items, max(tick, self.poller.now or tick))
            return [self._fail(item, tick, at, outcome.reason) for item in ask.items]
        if host.answered(outcome.values if isinstance(outcome, Values) else ask.items):
            self.poller.resume(host.items)
        until = tick + max(1, math.ceil(outcome.fresh / self._tick))
        pulls = []
        for item in ask.items:
            held = self._held(item)
            if isinstance(outcome, Values) and item in outcome.values:
                value, kind = outcome.values[item], "value"
                self.counts.values += 1
            elif isinstance(outcome, Unchanged) and held is not None:
                value, kind = held[0], "unchanged"
                self.counts.unchanged += 1
            else:
                reason = outcome.missing.get(item, "missing") if isinstance(outcome, Values) else "nothing held"
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

    def _wait(self, ask: Ask, tick: int, host: Host) -> None:
        """Do not ask for these items while their server wants none."""
        ticks = math.ceil(max(0.0, host.suspended_until - self._clock()) / self._tick)
        for item in ask.items:
            self.poller.block(item, max(tick, self.poller.now or tick) + max(1, ticks))

    def _held(self, item: str) -> tuple[float, int] | None:
        try:
            return self.poller.held(item)
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
