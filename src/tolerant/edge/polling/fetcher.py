"""Makes one request and returns its outcome; whatever a server does, it ends as an outcome, in time."""

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

from tolerant.edge.polling.endpoint import Endpoint, ItemRequest
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.outcomes import Dropped, Failed, FetchedValues, Outcome, Suspended, Unchanged

_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,9})")
_LONGEST = 24 * 3600.0
"""Longest pause or freshness in seconds that a server is believed."""
_KEPT = 10_000
"""Addresses whose validators are remembered."""
_VALIDATOR = re.compile(r"[ -~]{1,512}")
"""An ETag or a date that may be returned to the server: nothing in it can end a header."""
_REDIRECTS = (301, 302, 303, 307, 308)
_HOPS = 5
"""Redirects that are followed one after the other."""
_REASON = 200
"""Most characters of a reason: it goes into the log, and part of it is the server's."""


class RefusedResponse(Exception):
    """A response that is not accepted; the message says why."""


class Fetcher:
    """Makes requests, conditional ones where the server has sent a validator.

    headers: sent to the endpoint's own server, and to no other. anywhere: redirects to other servers are followed.
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

    async def fetch(self, request: ItemRequest, host: Host, *, conditional: bool, probe: bool = False) -> Outcome:
        """Make a request and return its outcome. conditional: all its items have a value, so that "not modified" can
        be used. probe: make it although the server is down.
        """
        reason = ""
        for attempt in range(self._limits.retries + 1):
            try:
                async with host:
                    if host.suspended:  # while this request waited for its turn
                        return Failed("the server asked for a pause")
                    if host.down and not probe:
                        return Dropped()
                    async with asyncio.timeout(self._limits.timeout):
                        return await self._request(request, conditional)
            except TimeoutError:
                return Failed(f"no answer in {self._limits.timeout:g} s")
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                # The connection broke: the server may never have seen the request. Retried soon, but not for ever.
                reason = _described(error)
                if attempt < self._limits.retries:
                    await asyncio.sleep(self._limits.pause * 2**attempt)
            except RefusedResponse as error:
                return Failed(_plain(str(error)))
            except Exception as error:  # whatever the library raises for a response concerns this request alone
                return Failed(_described(error))
        return Failed(reason)

    async def _request(self, request: ItemRequest, conditional: bool) -> Outcome:
        validators = self._validators.get(request.url, {}) if conditional else {}
        origin = address = URL(request.url)
        for _ in range(_HOPS + 1):
            headers = {**validators, **self._headers} if _same_origin(address, origin) else {}
            async with self._session.get(address, headers=headers, allow_redirects=False) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    address = self._redirected(address, response.headers["Location"], origin)
                    continue
                return await self._outcome(request, response, bool(validators) and bool(headers))
        raise RefusedResponse(f"more than {_HOPS} redirects")

    def _redirected(self, address: URL, location: str, origin: URL) -> URL:
        """Return the target of a redirect, if it may be followed."""
        try:
            target = address.join(URL(location))
            following = (target.scheme, target.host, target.port)
        except ValueError:
            raise RefusedResponse("redirected to what is no address") from None
        if target.scheme not in ("http", "https") or not target.host or target.user or target.password:
            raise RefusedResponse("redirected to what is no address of a web server")
        if not self._anywhere and not _same_origin(target, origin):
            where = "{}://{}:{}".format(*following)
            raise RefusedResponse(f"redirected to another server, {where}; redirects = 'any' would follow")
        return target

    async def _outcome(self, request: ItemRequest, response: aiohttp.ClientResponse, conditional: bool) -> Outcome:
        if response.status in (429, 503) and "Retry-After" in response.headers:
            return Suspended(_pause(response.headers["Retry-After"]), f"status {response.status}")
        if response.status == 304 and conditional:
            return Unchanged(_fresh(response.headers))
        if response.status != 200:
            return Failed(f"status {response.status}")
        body = await self._body(response)
        try:
            values, missing = self._endpoint.read(request, body)
        except ValueError as error:
            return Failed(_plain(f"not JSON: {error}"))
        except RecursionError:
            return Failed("not JSON: nested too deep")
        if not missing:  # a 304 must never stand for a value that could not be read
            self._remember(request.url, response.headers)
        return FetchedValues(
            values, {item: _plain(reason) for item, reason in missing.items()}, _fresh(response.headers)
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the decompressed body; never read more than is allowed, compressed or not."""
        most = self._limits.largest
        if (response.content_length or 0) > most:
            raise RefusedResponse(f"an answer of more than {most} bytes")
        body = bytearray()
        while len(body) <= most and not response.content.at_eof():
            body += await response.content.read(most + 1 - len(body))
        unpacked = _unpacked(bytes(body), response.headers.get("Content-Encoding", ""), most)
        if max(len(body), len(unpacked)) > most:
            raise RefusedResponse(f"an answer of more than {most} bytes")
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
    """Decompress a body; return at most `most` + 1 bytes."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "x-gzip", "deflate"):
        raise RefusedResponse(f"an answer in the encoding {name!r}, which was not asked for")
    bare = name == "deflate" and (not body or body[0] & 0x0F != 8)  # without the header that it should have
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    try:
        return unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise RefusedResponse(f"an answer that is not {name}: {error}") from None


def _described(error: BaseException) -> str:
    return _plain(f"{type(error).__name__}: {error}")


def _plain(text: str) -> str:
    """Make a reason safe for the log and a terminal, whatever the server put into it."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text[:_REASON])


def _fresh(headers: Mapping[str, str]) -> float:
    """Return the seconds for which the response is fresh by its headers."""
    max_age = _MAX_AGE.search(headers.get("Cache-Control", "").lower())
    return min(float(max_age[1]), _LONGEST) if max_age else 0.0


def _pause(text: str) -> float:
    """Return the seconds of a Retry-After: a number, or a date. One that cannot be read counts as a minute."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError, IndexError):
            return 60.0
    return 60.0 if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST)
