"""Plans on their way to aggregators, and what aggregators report: rows and topics of a stream with a network.

- `feeds.<stream>`: rows of items from sources to aggregators, as in `updates`.
- `copies.<stream>.<aggregator>`: the same, from an aggregator to those below it.
- `grants.<stream>`: for each query what is wanted of the aggregators now, all of it, under a version that grows.
- `updates.<stream>`: rows of parts from aggregators to the pipeline. A part's key is its query, group and slot; the
  row's `grant` is the version of the plan that the part belongs to.
- `reports.<stream>`: how items move, from aggregators to the pipeline, once a period.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tolerant.streams import flat_json
from tolerant.transport.records import records, skipping

PRESENCE = '["","",0]'
"""The key under which an aggregator is there, whether or not anything is wanted of it."""


class Wanted(NamedTuple):
    """A part that an aggregator is to answer: `weights` {item: weight}, sent when it has drifted more than `push`.

    level: of a part of a maximum (minimum), below (above) which the part's value does not matter.
    """

    aggregator: str
    slot: int
    version: int
    fn: str
    weights: dict[str, float]
    push: float
    level: float | None = None


def part_key(query: str, group: str, slot: int) -> str:
    """The key of a part's rows."""
    return json.dumps([query, group, slot], separators=(",", ":"), ensure_ascii=False)


def read_part_key(text: str) -> tuple[str, str, int]:
    """(query, group, slot) of a key that `part_key` wrote.

    Raises:
        ValueError: it wrote no such key.
    """
    parts = flat_json(text)
    if not isinstance(parts, list) or [type(part) for part in parts] != [str, str, int]:
        raise ValueError(f"key must be the query, group and slot of a part, got {text!r:.80}")
    return parts[0], parts[1], parts[2]


def plan_key(query: str, group: str) -> str:
    """The key of a query's plan in `grants.<stream>`."""
    return json.dumps([query, group], separators=(",", ":"), ensure_ascii=False)


def plan_body(wanted: Iterable[Wanted]) -> bytes:
    """All parts that are wanted for a query."""
    return json.dumps([list(part) for part in wanted], separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True)
class Announcement:
    """What is wanted for a query from version `version` on; nothing where it is dropped."""

    query: str
    group: str
    version: int
    wanted: tuple[Wanted, ...]


def read_announcements(payload: bytes) -> list[Announcement]:
    """The announcements in an entry of `grants.<stream>`; what cannot be read is left out, with a warning."""
    announcements = []
    for key, version, body in records(payload):
        with skipping("a plan", key):
            query, group = flat_json(key)
            if not (isinstance(query, str) and isinstance(group, str)):
                raise ValueError("its key must be a query and a group")
            wanted = () if body is None else tuple(map(_wanted, json.loads(body)))
            announcements.append(Announcement(query, group, version, wanted))
    return announcements


def _wanted(part: list[Any]) -> Wanted:
    made = Wanted(*part)
    names = isinstance(made.aggregator, str) and isinstance(made.fn, str)
    numbers = all(type(number) is int for number in (made.slot, made.version)) and _is_number(made.push)
    level = made.level is None or _is_number(made.level)
    if not (names and numbers and level) or not all(map(_is_number, made.weights.values())):
        raise ValueError(f"not a part: {part!r:.80}")
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


REPORTS = pa.schema(
    [
        ("aggregator", pa.string()),
        ("at", pa.int64()),
        ("ticks", pa.int64()),
        ("late", pa.int64()),  # rows of items that came too late, since it started
        ("items", pa.list_(pa.string())),
        ("moved", pa.list_(pa.float64())),  # a tick
        ("cosine", pa.list_(pa.float32())),  # row by row
    ]
)
"""Rows of `reports.<stream>`."""
