"""A real HTTP server on loopback whose items move, and which misbehaves on cue."""

import asyncio
import json
import time

from aiohttp import web


class FaultyServer:
    """Answers /quote/{symbol} and /quotes?of=a,b; `faults` maps symbol to "slow", "500", "malformed", "nan", "drop",
    "429" or "huge". values: symbol → number, changed by the test as it likes.
    """

    def __init__(self, values, *, etags=False, max_age=None):
        self.values, self.etags, self.max_age = values, etags, max_age
        self.faults, self.requests, self.times, self.at_once, self.most_at_once = {}, [], [], 0, 0

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/quote/{symbol}", self.one)
        app.router.add_get("/quotes", self.several)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error):
        await self._runner.cleanup()

    async def one(self, request):
        symbol = request.match_info["symbol"]
        return await self._answer(request, [symbol], lambda: {"price": self.values[symbol]})

    async def several(self, request):
        symbols = request.query["of"].split(",")
        return await self._answer(request, symbols, lambda: {s: {"price": self.values[s]} for s in symbols})

    async def _answer(self, request, symbols, document):
        self.requests.append(symbols)
        self.times.append(time.monotonic())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            fault = next((self.faults[symbol] for symbol in symbols if symbol in self.faults), None)
            return await self._respond(request, document, fault)
        finally:
            self.at_once -= 1

    async def _respond(self, request, document, fault):
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
            request.transport.close()
            return web.Response()
        if fault == "429":
            return web.Response(status=429, headers={"Retry-After": "0.3"})
        body = json.dumps(document())
        headers = {"Cache-Control": f"max-age={self.max_age}"} if self.max_age is not None else {}
        if self.etags:
            headers["ETag"] = f'"{hash(body)}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
        return web.Response(text=body, headers=headers, content_type="application/json")
