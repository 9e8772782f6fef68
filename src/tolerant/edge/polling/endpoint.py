"""Addresses of items on web servers, and how their values are read from responses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from tolerant.edge.polling.jsonpath import JsonPath

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class ItemRequest:
    """One HTTP request: its address, its server, and the items that it is for."""

    url: str
    host: str
    items: tuple[str, ...]


class Endpoint:
    """A family of addresses, one per item or per batch of items.

    Parameters: `url` with a `{column}` for each key column; `path` of the value in the JSON response; `key`, the key
    columns; `parts`, from an item's text to its columns (default: the text itself is the only one); `batch`, how many
    items one request may be for: the address then has their keys separated by commas, and `path` must tell the items
    apart with the same `{column}`.

    >>> quotes = Endpoint("http://host/quote?of={symbol}", "$.{symbol}.price", key=("symbol",), batch=2)
    >>> [request.url for request in quotes.requests(["A", "B&C", "D"])]
    ['http://host/quote?of=A,B%26C', 'http://host/quote?of=D']
    """

    def __init__(
        self,
        url: str,
        path: str = "$",
        *,
        key: Sequence[str],
        parts: Callable[[str], Sequence[object]] | None = None,
        batch: int = 1,
    ) -> None:
        split = urlsplit(url)
        if "@" in split.netloc:
            raise ValueError("url must not hold a user or a password: they go into a header")
        if split.scheme not in ("http", "https") or not split.hostname:
            raise ValueError(f"url must be http:// or https:// with a host, got {url!r}")
        if _PLACE.search(split.netloc) or _PLACE.search(split.fragment):
            raise ValueError(f"url must name its key columns in the path or the query, got {url!r}")
        named = set(_PLACE.findall(url))
        if named != set(key):
            raise ValueError(f"url must name each key column once, as {{{'}, {'.join(key)}}}, got {url!r}")
        if not (batch >= 1 and batch == int(batch)):
            raise ValueError(f"batch must be a whole number, at least 1, got {batch}")
        self.path = JsonPath(path)
        if batch > 1 and (len(key) != 1 or "{" + key[0] + "}" not in path):
            raise ValueError(f"with a batch, path must say whose value it is, with {{{key[0]}}}, got {path!r}")
        self.url, self.key, self.batch = url, tuple(key), int(batch)
        self.host = f"{split.scheme}://{split.netloc}"
        """The server of all requests."""
        self._parts = parts or (lambda item: (item,))

    def columns(self, item: str) -> dict[str, str]:
        """Return the key columns of an item, as text."""
        parts = [part if isinstance(part, str) else json.dumps(part) for part in self._parts(item)]
        return dict(zip(self.key, parts, strict=True))

    def refusal(self, item: str) -> str | None:
        """Say why an item cannot be requested; None: it can. A key must not lead to another path of the server.

        >>> Endpoint("http://host/{symbol}", key=("symbol",)).refusal("..")
        "key '..' cannot stand in a path"
        """
        try:
            columns = self.columns(item)
        except ValueError as error:
            return f"key {item!r:.60} is not one of this stream: {error}"
        for segment in urlsplit(self.url).path.split("/"):
            if _PLACE.search(segment):
                filled = _PLACE.sub(lambda place: columns[place[1]], segment)
                if not filled or any(part in (".", "..") for part in re.split(r"[/\\]", _decoded(filled))):
                    return f"key {item!r:.60} cannot stand in a path"
        return None

    def requests(self, items: Iterable[str]) -> list[ItemRequest]:
        """Return the requests for these items, in the order given; up to `batch` items share one."""
        listed = list(items)
        return [self._request(listed[k : k + self.batch]) for k in range(0, len(listed), self.batch)]

    def _request(self, items: Sequence[str]) -> ItemRequest:
        columns = [self.columns(item) for item in items]

        def filled(place: re.Match[str]) -> str:
            return ",".join(quote(each[place[1]], safe="") for each in columns)

        return ItemRequest(_PLACE.sub(filled, self.url), self.host, tuple(items))

    def read(self, request: ItemRequest, body: bytes) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """Read the values in a response; also return why the other items have none.

        Raises:
            ValueError: the response is not JSON.
        """
        document = json.loads(body)
        values, missing = {}, {}
        for item in request.items:
            try:
                values[item] = self.path.number(document, self.columns(item))
            except ValueError as error:
                missing[item] = str(error)
        return values, missing


def _decoded(text: str) -> str:
    """Remove percent-encoding from a text, however often it was encoded."""
    for _ in range(len(text)):
        plain = unquote(text)
        if plain == text:
            break
        text = plain
    return text
