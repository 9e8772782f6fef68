"""Which sums a source may filter instead of its items: rows of the compacted topic `sums.<stream>`.

A row is for one source and one shard of the pipeline, and says all that holds: what it leaves out is over. The greatest
version counts. A sum has a key of its own, never used again for another sum (`tolerant.streams.sum_key`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from tolerant.streams import is_sum
from tolerant.transport.records import skipping


@dataclass(frozen=True)
class Sums:
    """Sums over items of one source that belong together: all of them are filtered, or none.

    Sum j has the key keys[j] and is of items[k] times weights for k in parts[j]; `shares[j]` is how wide its filter, or
    all those of its items together, may be. `alone[k]`: how wide an item may be for the sake of other queries; None:
    any. `formed`: the pipeline computes with the sums.
    """

    keys: tuple[str, ...]
    items: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    alone: tuple[float | None, ...]
    formed: bool


class SumOffers(NamedTuple):
    """A row: for the source, from a shard, under a version."""

    source: str
    shard: int
    version: int
    sets: tuple[Sums, ...]


def sums_key(source: str, shard: int) -> str:
    """The key of a source's row."""
    return f"{shard}/{source}"


def sums_body(sets: Sequence[Sums]) -> bytes:
    """The body of a row."""
    return json.dumps([vars(offers) for offers in sets], separators=(",", ":"), ensure_ascii=False).encode()


def read_sums(batch: pa.RecordBatch, source: str) -> list[SumOffers]:
    """The rows for one source in a batch of the topic; what cannot be read is left out, as if it had not been said."""
    offers = []
    for key, version, body in zip(*(column.to_pylist() for column in batch.columns[:3]), strict=True):
        shard, _, name = str(key).partition("/")
        if name == source and shard.isdecimal() and body is not None:
            with skipping("sums of items", key):
                offers.append(SumOffers(source, int(shard), version, tuple(map(_sums, json.loads(body)))))
    return offers


def _sums(row: dict[str, Any]) -> Sums:
    sums = Sums(
        tuple(row["keys"]),
        tuple(row["items"]),
        tuple(map(tuple, row["parts"])),
        tuple(map(tuple, row["weights"])),
        tuple(row["shares"]),
        tuple(row["alone"]),
        bool(row["formed"]),
    )
    whole = len(sums.keys) == len(sums.parts) == len(sums.weights) == len(sums.shares) > 0
    whole = whole and len(sums.alone) == len(sums.items) and all(map(is_sum, sums.keys))
    pairs = zip(sums.parts, sums.weights, strict=True)
    numbers = [*sums.shares, *(width for width in sums.alone if width is not None), *chain(*sums.weights)]
    whole = whole and all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
    whole = whole and all(isinstance(item, str) for item in sums.items)
    if not whole or not all(len(part) == len(weights) > 0 and _inside(part, sums.items) for part, weights in pairs):
        raise ValueError("not a set of sums")
    return sums


def _inside(part: tuple[int, ...], items: tuple[str, ...]) -> bool:
    return all(type(place) is int and 0 <= place < len(items) for place in part)
