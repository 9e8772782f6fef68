"""Records of compacted topics that are almost right: other bytes, other JSON, other keys, other versions."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mutations import EXTREME_INTEGERS, EXTREME_NUMBERS, STRANGE_TEXTS, mutated

from tolerant.kernels import snapshots
from tolerant.transport.records import Record
from tolerant.transport.rows import compacted, pack

JUNK = (None, b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"{}", b"[]", b"null", b"7", b'"text"', b"[[]]")
KEYS = (
    "",
    "forged",
    "[]",
    '["forged"]',
    "7",
    "-7",
    "9" * 400,
    "0/forged",
    "items/0",
    "\x00",
    "\U0001f4a9" * 40,
    "[" * 5000,
)
VALUES: tuple[Any, ...] = (
    None, True, [], {}, [[]], [None], "", "forged", "\ud800", "\x00", "9" * 5000, 10**400, 0.5, *EXTREME_INTEGERS,
    *EXTREME_NUMBERS, *STRANGE_TEXTS,
)  # fmt: skip


class RecordForger:
    """Makes payloads of one record from good ones, whose keys may be taken; true records have other keys."""

    def __init__(self, seed: int, good: Sequence[Record]) -> None:
        self._rng, self._good = random.Random(seed), list(good)

    def payload(self) -> bytes:
        """The next one; a record's version is mostly its own, and seldom extreme."""
        rng = self._rng
        key, version, body = rng.choice(self._good)
        if rng.random() < 0.2:
            key = rng.choice(KEYS)
        if rng.random() < 0.1:
            version = rng.choice(EXTREME_INTEGERS)
        return pack(compacted([(key, version, self._body(body))]))

    def _body(self, body: bytes | None) -> bytes | None:
        rng = self._rng
        if not body or rng.random() < 0.05:
            return rng.choice(JUNK)
        if rng.random() < 0.3:
            return mutated(rng, body)
        try:
            value = json.loads(body)
        except ValueError:
            return mutated(rng, body)
        return json.dumps(other_json(rng, value)).encode()


def other_json(rng: random.Random, value: Any) -> Any:
    """A copy with one to three of its values replaced, repeated or taken out."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        match rng.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 2:
                other, place = rng.choice(places)
                holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = rng.choice(VALUES)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside, as (what holds it, its place there)."""
    stack = [value]
    while stack:
        holder = stack.pop()
        if isinstance(holder, dict | list):
            for key in list(holder if isinstance(holder, dict) else range(len(holder)))[:200]:
                yield holder, key
                stack.append(holder[key])


def other_snapshot(rng: random.Random, schema: snapshots.Schema, body: bytes) -> bytes:
    """A snapshot of which one field is missing, has other numbers in its array or another plain value."""
    state = schema.unpack(body)
    holder, name = rng.choice(list(_fields(state)))
    value = holder.pop(name)
    if rng.random() < 0.9:
        holder[name] = _other_array(rng, value) if isinstance(value, np.ndarray) else other_json(rng, value)
    try:
        return schema.pack(state)
    except (ValueError, TypeError, OverflowError):  # what no snapshot can hold
        return mutated(rng, body)


def _fields(state: snapshots.State) -> Iterator[tuple[snapshots.State, str]]:
    """Every field inside that is no part, as (the state that has it, its name)."""
    for name, value in state.items():
        if isinstance(value, snapshots.State):
            yield from _fields(value)
        else:
            yield state, name


def _other_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    if rng.random() < 0.1:
        return rng.choice((array[:-1], np.concatenate([array, array]), array.astype(array.dtype).reshape(-1)))
    flat = array.view(np.uint8).reshape(-1) if array.dtype.kind in "fiub" else None
    if flat is None or not flat.size:
        return array[::-1].copy()
    place = rng.randrange(array.size)
    extreme = EXTREME_NUMBERS if array.dtype.kind == "f" else EXTREME_INTEGERS
    if rng.random() < 0.5 and array.dtype.kind in "fi":
        limits = np.iinfo(array.dtype) if array.dtype.kind == "i" else None
        number = rng.choice(extreme)
        array.flat[place] = number if limits is None else max(limits.min, min(limits.max, int(number)))
    else:
        flat[rng.randrange(flat.size)] ^= 1 << rng.randrange(8)
    return array
