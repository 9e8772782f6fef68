"""A poller and a server that does anything: nothing is believed that was not said, nobody else suffers, nothing ends.

Each seed is a server whose items each answer with a fault drawn anew for every request, among them raw bytes that are
no HTTP. One item is well, one is well every other time, and another server stands for what must never be reached.
"""

import asyncio
import gzip
import itertools
import random
import resource
import time

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from tolerant.edge.polling import Endpoint, HttpPoller, Limits, MemorySink
from tolerant.edge.polling.stream_poller import warm
from tolerant.queries import Aggregate
from tolerant.transport.pulls import pulls_batch

BUDGET = 12.0  # seconds
FULL = 600.0
TICKS = 25
ITEMS = ["well", "often", *(f"bad{k}" for k in range(6)), "..", "a/b", "é", "%2e%2e"]
ASKED = [item for item in ITEMS if item not in ("..", "%2e%2e")]
LIMITS = Limits(at_once=16, timeout=1.0, largest=20_000, retries=1, pause=0.001)
MEMORY = 400 << 20  # bytes that a run may add to the largest size that this process ever had


class Anything:
    """A server on loopback that answers by chance; `said`: every number that it ever gave for an item in good order."""

    def __init__(self, seed, elsewhere):
        self.chance, self.elsewhere = random.Random(seed), elsewhere
        self.said, self.requests, self.well = {}, 0, False

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/{item:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error):
        await self._runner.cleanup()

    async def _answer(self, request):
        self.requests += 1
        item = request.match_info["item"].removeprefix("v/")
        if self.well or item == "well" or (item == "often" and self.chance.random() < 0.5):
            return self._number(item)
        return await self.chance.choice(FAULTS)(self, request, item)

    def _number(self, item, **options):
        value = round(self.chance.uniform(-1e6, 1e6), 3)
        self.said.setdefault(item, set()).add(value)
        return web.json_response({"v": value}, **options)

    # -- faults ------------------------------------------------------------------------------------------------------

    async def fine(self, request, item):
        return self._number(item)

    async def status(self, request, item):
        return web.Response(status=self.chance.choice([201, 204, 206, 400, 401, 404, 418, 429, 500, 502, 503]))

    async def not_changed(self, request, item):
        return web.Response(status=304)

    async def pause(self, request, item):
        text = self.chance.choice(["0", "0.01", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
        return web.Response(status=503, headers={"Retry-After": text})

    async def body(self, request, item):
        texts = [
            "", "{", "[]", "null", "true", '{"v": NaN}', '{"v": 1e999}', '{"v": "x"}', '{"v": {}}', '{"v": [1]}',
            '{"w": 1}', "\ufeff{}", '{"v": "nan"}', "[" * 9_000, '{"v": ' + "9" * 5_000 + "}",
            '"\\ud800"', "1" * 19_000, '{"v": "\\ud800"}', '{"v": "\x1b[31m"}',
        ]  # fmt: skip
        return web.Response(body=self.chance.choice(texts).encode("utf-8", "surrogatepass"))

    async def noise(self, request, item):
        return web.Response(body=self.chance.randbytes(self.chance.randrange(3_000)))

    async def huge(self, request, item):
        return web.Response(body=b" " * 60_000)

    async def bomb(self, request, item):
        return web.Response(body=BOMB, headers={"Content-Encoding": self.chance.choice(["gzip", "deflate", "br", "x"])})

    async def redirect(self, request, item):
        where = self.chance.choice(
            [
                self.elsewhere + "/secret",
                "http://[",
                "//",
                "..",
                request.path,
                "file:///etc/passwd",
                "http://h:x/",
                "\xff",
            ]
        )
        return web.Response(status=self.chance.choice([301, 302, 303, 307, 308]), headers={"Location": where})

    async def headers(self, request, item):
        value = bytes(self.chance.choice([1, 9, 11, 27, 127, 133, 255, 65]) for _ in range(8))
        name = self.chance.choice([b"ETag", b"Last-Modified", b"Cache-Control", b"Set-Cookie"])
        body = self._number(item).body
        line = b"HTTP/1.1 200 OK\r\n" + name + b": " + value + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        request.transport.write(line + body)
        request.transport.close()
        return web.Response()

    async def slow(self, request, item):
        await asyncio.sleep(5)
        return self._number(item)

    async def trickle(self, request, item):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    async def drop(self, request, item):
        request.transport.close()
        return web.Response()

    async def raw(self, request, item):
        lines = [
            b"", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", b"SSH-2.0-x\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{}", b"HTTP/1.1 999999 x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"b" * 20_000,
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ",
            b"HTTP/1.1 302 x\r\nLocation: \x01\xff\r\nContent-Length: 0\r\n\r\n", b"HTTP/0.9 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nETag: \x0b\x01\xff\r\nContent-Length: 2\r\n\r\n{}",
        ]  # fmt: skip
        request.transport.write(self.chance.choice([*lines, self.chance.randbytes(200)]))
        request.transport.close()
        return web.Response()


FAULTS = [
    Anything.fine, Anything.status, Anything.not_changed, Anything.pause, Anything.body, Anything.noise, Anything.huge,
    Anything.bomb, Anything.redirect, Anything.headers, Anything.slow, Anything.trickle, Anything.drop, Anything.raw,
]  # fmt: skip
BOMB = gzip.compress(b" " * 20_000_000)


async def one_seed(seed):
    reached = []

    async def secret(request):
        reached.append(request.path)
        return web.json_response({"v": 666.0})

    app = web.Application()
    app.router.add_get("/{any:.*}", secret)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with Anything(seed, f"http://127.0.0.1:{runner.addresses[0][1]}") as server:
            sink = MemorySink()
            endpoint = Endpoint(server.url + "/v/{k}", "$.v", key=("k",))
            queries = [Aggregate.over("q", "sum", ITEMS, 1.0, 0.9), Aggregate.over("w", "max", ["well"], 0.0, 0.9)]
            async with HttpPoller(endpoint, queries, sink, tick=0.02, limits=LIMITS) as poller:
                for tick in range(TICKS):
                    poller.step(tick)  # raises what ended anything
                    await asyncio.sleep(0.02)
                    assert len(poller._tasks) <= len(ITEMS)
                assert poller.poller.last_pull("well") is not None
                server.well, end = True, time.monotonic() + 60
                for tick in itertools.count(TICKS):  # once the server is well, everything comes
                    poller.step(tick)
                    await asyncio.sleep(0.02)
                    held = [poller.poller.last_pull(item) for item in ASKED]
                    if all(one is not None and one[1] >= TICKS for one in held):
                        break
                    assert time.monotonic() < end, dict(zip(ASKED, held, strict=True))
                await asyncio.wait_for(poller.drain(), 30)
    finally:
        await runner.cleanup()
    assert reached == []
    everywhere = set().union(*server.said.values())  # a redirect may lead anywhere on the same server
    for pull in sink.pulls:
        if pull.kind == "value":
            assert pull.value in everywhere, pull
        assert pull.reason.isprintable(), pull
        assert len(pull.reason) <= 200, pull
    assert not any(pull.value is not None for pull in sink.pulls if pull.item not in ASKED)
    pulls_batch(sink.pulls)  # they can go into the log
    return len(sink.pulls)


def run(seconds):
    end, seed = time.monotonic() + seconds, 0
    asyncio.run(one_seed(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    pulls = 0
    while time.monotonic() < end or seed == 0:
        seed += 1
        try:
            pulls += asyncio.run(one_seed(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MEMORY
    print(f"{seed} seeds, {pulls} pulls")


def test_whatever_a_server_does():
    run(BUDGET)


@pytest.mark.soak
def test_whatever_a_server_does_for_long():
    run(FULL)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    warm()
