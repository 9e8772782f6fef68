"""A real HTTP server on loopback whose items move, and which misbehaves on cue. Needs the extra `http`."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, MutableMapping

from aiohttp import web

FAULTS = ("slow", "500", "malformed", "nan", "drop", "429", "huge")
"""What can be wrong with an item."""

RETRY_AFTER = 0.3
"""Seconds for which the fault 429 asks to be left alone."""


class FaultyServer:
    """Answers /quote/{symbol} and /quotes?of=a,b with the `values` of symbols, which change as the owner likes.

    faults: from symbols to one of FAULTS. etags: answers have one, and 304 says that it still holds. max_age: seconds
    for which answers say that they hold. Use it in an `async with`, or a `ServerThread`.
    """

    def __init__(
        self, values: MutableMapping[str, float], *, etags: bool = False, max_age: float | None = None
    ) -> None:
        self.values, self.etags, self.max_age = values, etags, max_age
        self.faults: dict[str, str | None] = {}
        self.requests: list[list[str]] = []
        self.times: list[float] = []
        self.pauses: list[float] = []  # when it asked to be left alone
        self.at_once = self.most_at_once = 0
        self.url = ""

    async def __aenter__(self) -> FaultyServer:
        app = web.Application()
        app.router.add_get("/quote/{symbol}", self._one)
        app.router.add_get("/quotes", self._several)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    async def _one(self, request: web.Request) -> web.Response:
        symbol = request.match_info["symbol"]
        return await self._answer(request, [symbol], lambda: {"price": self.values[symbol]})

    async def _several(self, request: web.Request) -> web.Response:
        symbols = request.query["of"].split(",")
        return await self._answer(request, symbols, lambda: {s: {"price": self.values[s]} for s in symbols})

    async def _answer(self, request: web.Request, symbols: list[str], document: Callable[[], object]) -> web.Response:
        self.requests.append(symbols)
        self.times.append(time.monotonic())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            fault = next((self.faults[symbol] for symbol in symbols if symbol in self.faults), None)
            return await self._respond(request, document, fault)
        finally:
            self.at_once -= 1

    async def _respond(self, request: web.Request, document: Callable[[], object], fault: str | None) -> web.Response:
        if fault == "slow":
            await asyncio.sleep(30)
        if fault == "500":
            return web.Response(status=500, text="oops")
        if fault == "malformed":
            return web.Response(text='{"price": 12', content_type="application/json")
        if fault == "nan":
            return web.Response(text='{"price": NaN}', content_type="application/json")
        if fault == "huge":
            return web.Response(text="[" + "1," * 600_000 + "1]")
        if fault == "drop":
            if request.transport is not None:
                request.transport.close()
            return web.Response()
        if fault == "429":
            self.pauses.append(time.monotonic())
            return web.Response(status=429, headers={"Retry-After": str(RETRY_AFTER)})
        return self._well(request, json.dumps(document()))

    def _well(self, request: web.Request, body: str) -> web.Response:
        headers = {"Cache-Control": f"max-age={self.max_age}"} if self.max_age is not None else {}
        if self.etags:
            headers["ETag"] = f'"{hash(body)}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
        return web.Response(text=body, headers=headers, content_type="application/json")


class ServerThread(threading.Thread):
    """Runs a server in a thread of its own, from `with` to its end."""

    def __init__(self, server: FaultyServer) -> None:
        super().__init__(name="faulty server", daemon=True)
        self.server = server
        self._ready, self._over = threading.Event(), threading.Event()

    def run(self) -> None:
        """The thread."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with self.server:
            self._ready.set()
            while not self._over.is_set():
                await asyncio.sleep(0.05)

    def __enter__(self) -> FaultyServer:
        self.start()
        if not self._ready.wait(30):
            raise TimeoutError("the server did not start in 30 s")
        return self.server

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join(10)
