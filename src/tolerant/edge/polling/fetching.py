"""One request and what comes of it; whatever a server does, it ends as an outcome, in time."""

from __future__ import annotations

import asyncio
import email.utils
import math
import re
import time
import zlib
from collections.abc import Mapping

import aiohttp
from yarl import URL

from tolerant.edge.polling.endpoint import Ask, Endpoint
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.outcomes import Dropped, Failed, Outcome, Suspended, Unchanged, Values

_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,9})")
_LONGEST = 24 * 3600.0
"""Seconds that a server's word on pauses and freshness is believed for."""
_KEPT = 10_000
"""Addresses whose validators are remembered."""
_VALIDATOR = re.compile(r"[ -~]{1,512}")
"""An ETag or a date that may be sent back: nothing in it can end a header."""
_REDIRECTS = (301, 302, 303, 307, 308)
_HOPS = 5
"""Redirects that are followed one after the other."""
_REASON = 200
"""Characters of a reason, at most: it goes into the log, and part of it is the server's."""


class Refused(Exception):
    """What a server sent is not taken."""


class Fetcher:
    """Makes requests, conditional where the server gave something to compare with.

    headers: sent along to the endpoint's own server, and to no other. anywhere: redirects to other servers are
    followed.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        limits: Limits,
        *,
        headers: Mapping[str, str] | None = None,
        anywhere: bool = False,
    ) -> None:
        self._session, self._endpoint, self._limits = session, endpoint, limits
        self._headers, self._anywhere = dict(headers or {}), anywhere
        self._validators: dict[str, dict[str, str]] = {}

    async def fetch(self, ask: Ask, host: Host, *, conditional: bool, probe: bool = False) -> Outcome:
        """What came of a request. conditional: all its items are held, so that "not changed" says something.

        probe: it is made although the server is down.
        """
        reason = ""
        for attempt in range(self._limits.retries + 1):
            try:
                async with host:
                    if host.suspended:  # while this one waited for its turn
                        return Failed("the server asked for a pause")
                    if host.down and not probe:
                        return Dropped()
                    async with asyncio.timeout(self._limits.timeout):
                        return await self._request(ask, conditional)
            except TimeoutError:
                return Failed(f"no answer in {self._limits.timeout:g} s")
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                # Broken on the way: the server may never have seen it. Tried again at once, but not for ever.
                reason = _described(error)
                if attempt < self._limits.retries:
                    await asyncio.sleep(self._limits.pause * 2**attempt)
            except Refused as error:
                return Failed(_plain(str(error)))
            except Exception as error:  # whatever the library makes of what a server sends is this request's alone
                return Failed(_described(error))
        return Failed(reason)

    async def _request(self, ask: Ask, conditional: bool) -> Outcome:
        validators = self._validators.get(ask.url, {}) if conditional else {}
        origin = address = URL(ask.url)
        for _ in range(_HOPS + 1):
            headers = {**validators, **self._headers} if _same_origin(address, origin) else {}
            async with self._session.get(address, headers=headers, allow_redirects=False) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    address = self._redirected(address, response.headers["Location"], origin)
                    continue
                return await self._answer(ask, response, bool(validators) and bool(headers))
        raise Refused(f"more than {_HOPS} redirects")

    def _redirected(self, address: URL, location: str, origin: URL) -> URL:
        """Where a redirect leads, if it may be followed."""
        try:
            target = address.join(URL(location))
            following = (target.scheme, target.host, target.port)
        except ValueError:
            raise Refused("redirected to what is no address") from None
        if target.scheme not in ("http", "https") or not target.host or target.user or target.password:
            raise Refused("redirected to what is no address of a web server")
        if not self._anywhere and not _same_origin(target, origin):
            where = "{}://{}:{}".format(*following)
            raise Refused(f"redirected to another server, {where}; redirects = 'any' would follow")
        return target

    async def _answer(self, ask: Ask, response: aiohttp.ClientResponse, conditional: bool) -> Outcome:
        if response.status in (429, 503) and "Retry-After" in response.headers:
            return Suspended(_pause(response.headers["Retry-After"]), f"status {response.status}")
        if response.status == 304 and conditional:
            return Unchanged(_fresh(response.headers))
        if response.status != 200:
            return Failed(f"status {response.status}")
        body = await self._body(response)
        try:
            values, missing = self._endpoint.read(ask, body)
        except ValueError as error:
            return Failed(_plain(f"not JSON: {error}"))
        except RecursionError:
            return Failed("not JSON: nested too deep")
        if not missing:  # a 304 must never stand for a value that could not be read
            self._remember(ask.url, response.headers)
        return Values(values, {item: _plain(reason) for item, reason in missing.items()}, _fresh(response.headers))

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """The answer, unpacked; never more of it than is allowed, neither packed nor unpacked."""
        most = self._limits.largest
        if (response.content_length or 0) > most:
            raise Refused(f"an answer of more than {most} bytes")
        body = bytearray()
        while len(body) <= most and not response.content.at_eof():
            body += await response.content.read(most + 1 - len(body))
        unpacked = _unpacked(bytes(body), response.headers.get("Content-Encoding", ""), most)
        if max(len(body), len(unpacked)) > most:
            raise Refused(f"an answer of more than {most} bytes")
        return unpacked

    def _remember(self, url: str, headers: Mapping[str, str]) -> None:
        validators = {
            ours: headers[theirs]
            for ours, theirs in (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
            if _VALIDATOR.fullmatch(headers.get(theirs, ""))
        }
        self._validators.pop(url, None)
        if validators:
            self._validators[url] = validators
            if len(self._validators) > _KEPT:
                del self._validators[next(iter(self._validators))]


def _same_origin(address: URL, origin: URL) -> bool:
    return (address.scheme, address.host, address.port) == (origin.scheme, origin.host, origin.port)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """The body without its encoding; of what is longer than `most`, one byte more than that."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "x-gzip", "deflate"):
        raise Refused(f"an answer in the encoding {name!r}, which was not asked for")
    bare = name == "deflate" and (not body or body[0] & 0x0F != 8)  # without the header that it should have
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    try:
        return unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused(f"an answer that is not {name}: {error}") from None


def _described(error: BaseException) -> str:
    return _plain(f"{type(error).__name__}: {error}")


def _plain(text: str) -> str:
    """A reason that can go into the log and onto a terminal, whatever the server put into it."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text[:_REASON])


def _fresh(headers: Mapping[str, str]) -> float:
    """Seconds for which the answer says that it holds."""
    found = _MAX_AGE.search(headers.get("Cache-Control", "").lower())
    return min(float(found[1]), _LONGEST) if found else 0.0


def _pause(text: str) -> float:
    """Seconds of a Retry-After: a number, or a date. One that cannot be read is a minute."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError, IndexError):
            return 60.0
    return 60.0 if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST)
