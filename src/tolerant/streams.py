"""Streams: the columns, key and options under which items' values arrive, and how a key is written as text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TypeAlias

KeyPart: TypeAlias = str | int | float | bool
"""One column of a key."""

SECOND = 1_000_000
"""Microseconds in a second: every time and duration in Tolerant is an integer number of microseconds."""

CHOOSERS = ("risk", "max", "positive-negative", "per-item", "all", "every-tick")
"""The ways in which a polled stream can choose what to ask for."""

POLICIES = ("exact", "uniform", "adaptive", "predictive")
"""The filter policies that a stream can be run with."""

SPLIT = "split"
"""The policy of a stream with a network whose items may be answered by several aggregators, a share each."""


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


def key_parts(text: str, types: tuple[str, ...]) -> tuple[KeyPart, ...]:
    """The parts of a key written by `key_text`, for key columns of these types.

    >>> key_parts('["web-1","in"]', ("STRING", "STRING"))
    ('web-1', 'in')

    Raises:
        ValueError: the text is not a key of these columns.
    """
    if len(types) == 1:
        return (text,) if types[0] == "STRING" else (json.loads(text),)
    parts = json.loads(text)
    if not isinstance(parts, list) or len(parts) != len(types):
        raise ValueError(f"key {text!r} must be a JSON list of {len(types)} parts")
    return tuple(parts)
