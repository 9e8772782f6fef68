"""Where items are to be found: addresses, and how values are read from answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from tolerant.edge.polling.jsonpath import JsonPath

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Ask:
    """One request: its address, the server that it goes to, and the items that it asks for."""

    url: str
    host: str
    items: tuple[str, ...]


class Endpoint:
    """A family of addresses, one for each item or few items.

    Parameters: `url` with a `{column}` for each key column; `path`, where the value stands in the JSON answer; `key`,
    the key columns; `parts`, from an item's text to its columns (default: the text itself is the only one); `batch`,
    how many items may go into one request: their keys then stand in the address with commas between them, and `path`
    must say which value is whose, with the same `{column}`.

    >>> quotes = Endpoint("http://host/quote?of={symbol}", "$.{symbol}.price", key=("symbol",), batch=2)
    >>> [ask.url for ask in quotes.asks(["A", "B&C", "D"])]
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
        self._parts = parts or (lambda item: (item,))

    def columns(self, item: str) -> dict[str, str]:
        """The key columns of an item, as text."""
        parts = [part if isinstance(part, str) else json.dumps(part) for part in self._parts(item)]
        return dict(zip(self.key, parts, strict=True))

    def refusal(self, item: str) -> str | None:
        """Why an item cannot be asked for; None: it can. A key may not lead to another place of the server.

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

    def asks(self, items: Iterable[str]) -> list[Ask]:
        """The requests for these items; those that can share one do, in the order given."""
        listed = list(items)
        if self.batch == 1:
            return [self._ask([item]) for item in listed]
        return [self._ask(listed[k : k + self.batch]) for k in range(0, len(listed), self.batch)]

    def _ask(self, items: Sequence[str]) -> Ask:
        columns = [self.columns(item) for item in items]

        def filled(place: re.Match[str]) -> str:
            return ",".join(quote(each[place[1]], safe="") for each in columns)

        url = _PLACE.sub(filled, self.url)
        split = urlsplit(url)
        return Ask(url, f"{split.scheme}://{split.netloc}", tuple(items))

    def read(self, ask: Ask, body: bytes) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """The values in an answer, and why there is none for the items that have none.

        Raises:
            ValueError: the answer is not JSON.
        """
        document = json.loads(body)
        values, missing = {}, {}
        for item in ask.items:
            try:
                values[item] = self.path.number(document, self.columns(item))
            except ValueError as error:
                missing[item] = str(error)
        return values, missing


def _decoded(text: str) -> str:
    """Text without percent-encoding, however often it was encoded."""
    for _ in range(len(text)):
        plain = unquote(text)
        if plain == text:
            break
        text = plain
    return text
