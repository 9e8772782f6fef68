"""One request and what comes of it; whatever a server does, it ends as an outcome, in time."""

from __future__ import annotations

import asyncio
import email.utils
import re
import time
from collections.abc import Mapping

import aiohttp

from tolerant.edge.polling.endpoint import Ask, Endpoint
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.outcomes import Failed, Outcome, Suspended, Unchanged, Values

_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,9})")
_LONGEST = 24 * 3600.0
"""Seconds that a server's word on pauses and freshness is believed for."""
_KEPT = 10_000
"""Addresses whose validators are remembered."""


class Fetcher:
    """Makes requests, conditional where the server gave something to compare with."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint, limits: Limits) -> None:
        self._session, self._endpoint, self._limits = session, endpoint, limits
        self._validators: dict[str, dict[str, str]] = {}

    async def fetch(self, ask: Ask, host: Host, *, conditional: bool) -> Outcome:
        """What came of a request. conditional: all its items are held, so that "not changed" says something."""
        for attempt in range(self._limits.retries + 1):
            try:
                async with host:
                    if host.suspended:  # while this one waited for its turn
                        return Failed("the server asked for a pause")
                    async with asyncio.timeout(self._limits.timeout):
                        return await self._request(ask, conditional)
            except TimeoutError:
                return Failed(f"no answer in {self._limits.timeout:g} s")
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                # Broken on the way: the server may never have seen it. Tried again at once, but not for ever.
                reason = f"{type(error).__name__}: {error}"
                if attempt < self._limits.retries:
                    await asyncio.sleep(self._limits.pause * 2**attempt)
            except aiohttp.ClientError as error:
                return Failed(f"{type(error).__name__}: {error}")
        return Failed(reason)

    async def _request(self, ask: Ask, conditional: bool) -> Outcome:
        headers = self._validators.get(ask.url, {}) if conditional else {}
        async with self._session.get(ask.url, headers=headers) as response:
            if response.status in (429, 503) and "Retry-After" in response.headers:
                return Suspended(_pause(response.headers["Retry-After"]), f"status {response.status}")
            if response.status == 304 and headers:
                return Unchanged(_fresh(response.headers))
            if response.status != 200:
                return Failed(f"status {response.status}")
            body = await response.content.read(self._limits.largest + 1)
            while len(body) <= self._limits.largest and not response.content.at_eof():
                body += await response.content.read(self._limits.largest + 1 - len(body))
            if len(body) > self._limits.largest:
                return Failed(f"an answer of more than {self._limits.largest} bytes")
            return self._read(ask, body, response.headers)

    def _read(self, ask: Ask, body: bytes, headers: Mapping[str, str]) -> Outcome:
        try:
            values, missing = self._endpoint.read(ask, body)
        except ValueError as error:
            return Failed(f"not JSON: {error}")
        except RecursionError:
            return Failed("not JSON: nested too deep")
        if not missing:  # a 304 must never stand for a value that could not be read
            self._remember(ask.url, headers)
        return Values(values, missing, _fresh(headers))

    def _remember(self, url: str, headers: Mapping[str, str]) -> None:
        found = {
            ours: headers[theirs]
            for ours, theirs in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
            if theirs in headers
        }
        self._validators.pop(url, None)
        if found:
            self._validators[url] = found
            if len(self._validators) > _KEPT:
                del self._validators[next(iter(self._validators))]


def _fresh(headers: Mapping[str, str]) -> float:
    """Seconds for which the answer says that it holds."""
    found = _MAX_AGE.search(headers.get("Cache-Control", "").lower())
    return min(float(found[1]), _LONGEST) if found else 0.0


def _pause(text: str) -> float:
    """Seconds of a Retry-After: a number, or a date. One that cannot be read is a minute."""
    try:
        return min(max(float(text), 0.0), _LONGEST)
    except ValueError:
        pass
    try:
        then = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return 60.0
    return min(max(then - time.time(), 0.0), _LONGEST)
