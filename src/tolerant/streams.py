"""Streams: the columns, key and options under which items' values arrive, and how a key is written as text."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

KeyPart: TypeAlias = str | int | float | bool
"""One column of a key."""

SECOND = 1_000_000
"""Microseconds in a second: every time and duration in Tolerant is an integer number of microseconds."""

EARLIEST, LATEST = -62_135_596_800 * SECOND, 7_258_118_400 * SECOND
"""The years 1 and 2200, in microseconds since 1970: a row or clock row of any other time is refused. Sums and
differences of such times stay far from the end of 64 bits.
"""

CHOOSERS = ("risk", "max", "positive-negative", "per-item", "all", "every-tick")
"""The ways in which a polled stream can choose what to ask for."""

REDIRECTS = ("same-origin", "any")
"""The redirects that a poller can follow: to the same scheme, host and port, or anywhere."""

POLICIES = ("exact", "uniform", "adaptive", "predictive")
"""The filter policies that a stream can be run with."""

SPLIT = "split"
"""The policy of a stream with a network whose items may be answered by several aggregators, a share each."""


@dataclass(frozen=True)
class Limits:
    """How much may be sent to a pipeline before it is refused, as dead letters; `docs/log.md` says why so much.

    `entry_bytes` and `entry_rows`: of one entry of the log, once decompressed. `key_length`: characters of a key or of
    the name of a source. `dead_letters`: that one entry may cause, the others are summed up in one more. `sources`,
    `items`, `queries`: of a stream. What is refused for the last two or three is missing from the stream, so its
    answers are stale from then on.
    """

    entry_bytes: int = 256 << 20
    entry_rows: int = 1_000_000
    key_length: int = 4096
    dead_letters: int = 100
    sources: int = 100_000
    items: int = 10_000_000
    queries: int = 100_000


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is run; durations in microseconds. See `specs/0-pipeline.md` §3.

    `tick`: time between readings. `period`: ticks between boundaries. `latency`: λ, how late a row may be appended
    after its event time; with `latency_percentile`, written `latency = 'p99.9'`, only until rows have shown within
    which time so many percent of them come. `lease`: how long a silent source is trusted. `shrink`: how much of its
    width a filter gives up at each boundary. `shards` and `shard`: how many shards, and by which key column.
    `retention`: how long rows are kept.

    Of a stream that is polled: `path`: where the value stands in the JSON answer. `batch`: items that may share a
    request. `at_once` and `per_second`: requests to a server, at most (0: any number). `timeout`: how long one may
    take. `max_interval`: ticks after which an item is asked for in any case. `chooser`: how the items are chosen.
    `stale_after`: age from which on a value is too old to answer with, whatever is thought of its item (0: a little
    more than `max_interval`). `redirects`: which ones are followed. `credentials`: where user and password are, or a
    token.

    `max_entry_bytes` and those that follow: see `Limits`.
    """

    tick: int = SECOND
    period: int = 10
    latency: int = SECOND // 2
    lease: int = 10 * SECOND
    shrink: float = 0.05
    policy: str = "predictive"
    shards: int = 1
    shard: str | None = None
    retention: int = 24 * 3600 * SECOND
    path: str = "$"
    batch: int = 1
    at_once: int = 8
    per_second: float = 0.0
    timeout: int = 5 * SECOND
    max_interval: int = 60
    chooser: str = "risk"
    latency_percentile: float = 0.0
    stale_after: int = 0
    redirects: str = "same-origin"
    credentials: str = ""
    max_entry_bytes: int = Limits.entry_bytes
    max_entry_rows: int = Limits.entry_rows
    max_key_length: int = Limits.key_length
    max_dead_letters: int = Limits.dead_letters
    max_sources: int = Limits.sources
    max_items: int = Limits.items
    max_queries: int = Limits.queries

    @property
    def limits(self) -> Limits:
        """How much may be sent to it."""
        return Limits(**{field.name: getattr(self, f"max_{field.name}") for field in fields(Limits)})

    @property
    def boundary(self) -> int:
        """T: the time between two boundaries, microseconds."""
        return self.period * self.tick


@dataclass(frozen=True)
class Column:
    """A column's name and its type, one of the names in `sql.types`: "STRING", "BIGINT", "DOUBLE", …"""

    name: str
    type: str


@dataclass(frozen=True)
class Stream:
    """A stream of items: one item for each key, one number for each item."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    uri: str | None = None
    options: StreamOptions = field(default_factory=StreamOptions)
    network: str | None = None
    """Of a stream that aggregators answer for: what its `network.toml` said, in one way of writing it."""

    @property
    def polled(self) -> bool:
        """Whether its values are asked for at a web server."""
        return self.uri is not None and self.uri.startswith(("http://", "https://"))

    @property
    def networked(self) -> bool:
        """Whether a network of aggregators answers for it."""
        return self.uri is not None and self.uri.endswith(".toml")

    @property
    def feed(self) -> str:
        """The topic that its sources write to: its pipeline's, or the one that aggregators read."""
        return f"feeds.{self.name}" if self.networked else f"updates.{self.name}"

    @property
    def value(self) -> str:
        """The name of the column that changes: the one that is not part of the key."""
        return next(column.name for column in self.columns if column.name not in self.key)

    @property
    def key_types(self) -> tuple[str, ...]:
        """The types of the key columns, in the order of the key."""
        types = {column.name: column.type for column in self.columns}
        return tuple(types[name] for name in self.key)


def key_text(parts: tuple[KeyPart, ...]) -> str:
    """A key as text: a single string as it is, anything else as JSON.

    >>> key_text(("web-1",)), key_text(("web-1", "in")), key_text((7,))
    ('web-1', '["web-1","in"]', '7')
    """
    if len(parts) == 1:
        part = parts[0]
        return part if isinstance(part, str) else json.dumps(part)
    return json.dumps(list(parts), separators=(",", ":"), ensure_ascii=False)


_SUM = "\x1f"  # no item's key begins so: a key column's text must not
_SUM_KEY = re.compile(_SUM + r"(\d{1,6})/(\d{1,20})")


def sum_key(shard: int, number: int) -> str:
    """The key under which a source sends a sum of items; `number`: never the same again.

    >>> is_sum(sum_key(0, 7)), is_sum("web-1")
    (True, False)
    """
    return f"{_SUM}{shard}/{number}"


def is_sum(text: str) -> bool:
    """Whether a key stands for a sum of items rather than an item."""
    return text.startswith(_SUM)


def shard_of_sum(text: str) -> int:
    """The shard of the pipeline that reckons with a sum.

    Raises:
        ValueError: the text is not the key of a sum.
    """
    found = _SUM_KEY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not the key of a sum")
    return int(found[1])


_TEXT_IN_JSON = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LARGEST = 2**63


def key_parts(text: str, types: tuple[str, ...]) -> tuple[KeyPart, ...]:
    """The parts of a key written by `key_text`, for key columns of these types.

    >>> key_parts('["web-1","in"]', ("STRING", "STRING"))
    ('web-1', 'in')

    Raises:
        ValueError: the text is not a key of these columns.
    """
    if types == ("STRING",):
        return (text,)
    is_list = len(types) > 1
    found = flat_json(text)
    parts = tuple(found) if isinstance(found, list) else (found,)
    if isinstance(found, list) != is_list or len(parts) != len(types):
        what = f"a JSON list of {len(types)} parts" if is_list else f"JSON, of type {types[0]}"
        raise ValueError(f"key {text!r:.80} must be {what}")
    return parts


def flat_json(text: str) -> Any:
    """What JSON text says: a value, or a list of values that are no lists or objects themselves, however deep.

    >>> flat_json('["web-1",7]')
    ['web-1', 7]

    Raises:
        ValueError: it is something else.
    """
    if text.count("[") > 1 or "{" in text:
        outside = _TEXT_IN_JSON.sub("", text)
        if outside.count("[") > 1 or "{" in outside:
            raise ValueError(f"{text!r:.80} must have no parts that are lists or objects")
    return json.loads(text)


def fits_key(part: object, kind: str) -> bool:
    """Whether a value can stand in a key column of this type: every number is finite and of 64 bits, every text can be
    written as UTF-8.

    >>> fits_key("web-1", "STRING"), fits_key("\\ud800", "STRING"), fits_key(True, "BIGINT"), fits_key(1e400, "DOUBLE")
    (True, False, False, False)
    """
    match kind, part:
        case "BOOLEAN", _:
            return isinstance(part, bool)
        case _, bool():
            return False
        case "INT" | "BIGINT", int():
            return -_LARGEST <= part < _LARGEST
        case "DOUBLE" | "FLOAT", int() | float():
            return abs(part) <= _LARGEST if isinstance(part, int) else math.isfinite(part)
        case "INT" | "BIGINT" | "DOUBLE" | "FLOAT", _:
            return False
        case _, str():
            return part.isascii() or not _SURROGATE.search(part)
    return False


_SURROGATE = re.compile("[\ud800-\udfff]")
