"""Stream definitions: columns, key and options; and the text form of keys."""

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
differences of such times do not overflow 64 bits.
"""

SOURCE_LENGTH = 64
"""Characters that the name of a source may have under any `max_key_length`: clock rows carry the id of a checkpoint
there, which is a UUID.
"""

CHOOSERS = ("risk", "max", "positive-negative", "per-item", "all", "every-tick")
"""The algorithms that choose the items that a polled stream fetches."""

REDIRECTS = ("same-origin", "any")
"""The redirects that a poller may follow: to the same scheme, host and port, or to any."""

POLICIES = ("exact", "uniform", "adaptive", "predictive")
"""The filter policies of streams."""

SPLIT = "split"
"""The policy of a stream with a network in which several aggregators may answer shares of an item."""


@dataclass(frozen=True)
class Limits:
    """Limits of what a pipeline accepts; what exceeds them becomes dead letters (`docs/log.md` gives the reasons).

    `entry_bytes` and `entry_rows`: of one log entry, decompressed. `key_length`: characters of a key or of a source's
    name. `dead_letters`: per entry, further ones are summarised in one more. `sources`, `items`, `queries`: of a
    stream. A refused source or item is missing from the stream, so its answers are stale from then on.
    """

    entry_bytes: int = 256 << 20
    entry_rows: int = 1_000_000
    key_length: int = 4096
    dead_letters: int = 100
    sources: int = 100_000
    items: int = 10_000_000
    queries: int = 10_000
    """As many as there may be in a log."""


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is run; durations in microseconds. See `docs/design/pipeline.md` §3.

    `tick`: time between readings. `period`: length of an adjustment period in ticks. `latency`: λ, how late a row may
    be appended after its event time; with `latency_percentile`, written `latency = 'p99.9'`, only until that percentile
    of the rows' delays has been measured. `lease`: how long a silent source is trusted. `shrink`: fraction of its width
    that a filter loses at each period's end. `shards` and `shard`: how many shards, and by which key column.
    `retention`: how long rows are kept.

    Of a polled stream: `path`: position of the value in the JSON reply. `batch`: items per request. `at_once` and
    `per_second`: limits of the requests to a server (0: none). `timeout`: of a request. `max_interval`: ticks after
    which an item is fetched in any case. `chooser`: algorithm that chooses the items. `stale_after`: age from which a
    value is not used in answers, whatever its item's dynamics (0: a little more than `max_interval`). `redirects`:
    which ones are followed. `credentials`: where user and password, or a token, are stored.

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

    def __post_init__(self) -> None:
        # A log has no more, so that more means as many: 0.1.0 wrote 100,000 into every definition that did not say.
        object.__setattr__(self, "max_queries", min(self.max_queries, Limits.queries))

    @property
    def limits(self) -> Limits:
        """The limits of what the pipeline accepts."""
        return Limits(**{field.name: getattr(self, f"max_{field.name}") for field in fields(Limits)})

    @property
    def boundary(self) -> int:
        """T: the length of an adjustment period, microseconds."""
        return self.period * self.tick


@dataclass(frozen=True)
class TableOptions:
    """How much may be sent to a table: see `Limits`."""

    max_entry_bytes: int = Limits.entry_bytes
    max_entry_rows: int = Limits.entry_rows
    max_key_length: int = Limits.key_length
    max_dead_letters: int = Limits.dead_letters

    @property
    def limits(self) -> Limits:
        """The limits of one entry."""
        return Limits(self.max_entry_bytes, self.max_entry_rows, self.max_key_length, self.max_dead_letters)


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
    """The normalised text of `network.toml`, for a stream that aggregators answer for."""

    @property
    def polled(self) -> bool:
        """Whether its values are fetched from a web server."""
        return self.uri is not None and self.uri.startswith(("http://", "https://"))

    @property
    def networked(self) -> bool:
        """Whether a network of aggregators answers for it."""
        return self.uri is not None and self.uri.endswith(".toml")

    @property
    def value(self) -> str:
        """The name of the value column: the one that is not part of the key."""
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


_SUM = "\x1f"  # reserved: a key column's text must not start with it
_SUM_KEY = re.compile(_SUM + r"(\d{1,6})/(\d{1,20})")


def sum_key(shard: int, number: int) -> str:
    """The key under which a source sends a sum of items; `number` must be unique.

    >>> is_sum(sum_key(0, 7)), is_sum("web-1")
    (True, False)
    """
    return f"{_SUM}{shard}/{number}"


def is_sum(text: str) -> bool:
    """Whether a key is that of a sum of items."""
    return text.startswith(_SUM)


def shard_of_sum(text: str) -> int:
    """The shard that a sum belongs to.

    Raises:
        ValueError: the text is not the key of a sum.
    """
    match = _SUM_KEY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the key of a sum")
    return int(match[1])


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
    parsed = flat_json(text)
    parts = tuple(parsed) if isinstance(parsed, list) else (parsed,)
    if isinstance(parsed, list) != is_list or len(parts) != len(types):
        what = f"a JSON list of {len(types)} parts" if is_list else f"JSON, of type {types[0]}"
        raise ValueError(f"key {text!r:.80} must be {what}")
    return parts


def flat_json(text: str) -> Any:
    """Parse JSON text: a value, or a list of values; refuses nested lists and objects, however deep.

    >>> flat_json('["web-1",7]')
    ['web-1', 7]

    Raises:
        ValueError: the text is something else.
    """
    if text.count("[") > 1 or "{" in text:
        outside = _TEXT_IN_JSON.sub("", text)
        if outside.count("[") > 1 or "{" in outside:
            raise ValueError(f"{text!r:.80} must have no parts that are lists or objects")
    return json.loads(text)


def fits_key(part: object, kind: str) -> bool:
    """Whether a value is valid in a key column of this type: numbers must be finite and of 64 bits, text must be
    encodable as UTF-8.

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
