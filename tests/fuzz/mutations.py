"""Payloads that are almost right: bytes changed at random, and rows with every value that a row must not have.

Everything is forged under names, keys and sources that nobody else uses (`FORGED`), so that whatever is accepted of it
says nothing of the rows of true sources. No byte string of a true name occurs in them, and an offset or an index that
was changed finds no other text than theirs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tolerant.kernels.versions import version
from tolerant.transport.rows import COMPACTED, NO_TIME, UPDATES, UPDATES_WITH_HISTORY, clock_batch, pack

FORGED = "forged"
EXTREME_INTEGERS = (0, 1, -1, 2**31, -(2**31), 2**40, 2**53, 2**62, NO_TIME, 2**63 - 1, -(2**63), version(7, 3))
EXTREME_NUMBERS = (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1.7e308, -1.7e308, 5e-324)
STRANGE_TEXTS = (
    "",
    FORGED,
    '["forged","zz"]',
    '["forged"]',
    '["forged","zz","zz"]',
    '["\\ud800","zz"]',
    '["forged\\u0000","zz"]',
    "[" * 5_000,
    '{"forged":' * 500,
    "\x00",
    "\x1f",
    "\x1f0/999",
    "\x1f999999/1",
    "\U0001f4a9" * 40,
    "f" * 5_000,
    "NaN",
    "1e999",
    "9" * 400,
    "null",
    '["","",0]',
    '["forged","",9223372036854775807]',
)
KINDS = (
    "update",
    "hello",
    "heartbeat",
    "ack",
    "gone",
    "form_request",
    "insert",
    "delete",
    "subscribe",
    "unsubscribe",
    FORGED,
    "",
)


def mutated(rng: random.Random, payload: bytes) -> bytes:
    """The payload with some bytes changed, taken out or put in."""
    data = bytearray(payload)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        place = rng.randrange(len(data))
        match rng.randrange(8):
            case 0 | 1 | 2:
                data[place] = rng.randrange(256)
            case 3 | 4:
                data[place] ^= 1 << rng.randrange(8)
            case 5:
                place &= ~7
                size = rng.choice((4, 8))
                number = rng.choice((0, 1, -1, 2**31 - 1, 2**40, 2**62, 8, 64))
                data[place : place + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
            case 6:
                del data[place : place + rng.choice((1, 8, 64))]
            case 7:
                data[place:place] = rng.choice((b"\0", bytes(8), b"\xff" * 8, payload[:64]))
        if not data:
            return b""
    return bytes(data)


def strange_batch(rng: random.Random, schema: pa.Schema, at: int) -> pa.RecordBatch:
    """Rows of a schema with values that nobody should send, most of them in their usual ranges."""
    size = rng.choice((1, 1, 3, 20))
    return pa.record_batch([_column(rng, field, size, at) for field in schema], schema=schema)


def _column(rng: random.Random, field: pa.Field, size: int, at: int) -> pa.Array:
    values = [None if rng.random() < 0.03 else _value(rng, field, at) for _ in range(size)]
    if pa.types.is_dictionary(field.type):
        return pa.array(values, field.type.value_type).dictionary_encode()
    return pa.array(values, field.type)


def _value(rng: random.Random, field: pa.Field, at: int) -> object:
    kind, strange = field.type, rng.random() < 0.25
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        if field.name == "kind":
            return rng.choice(KINDS)
        return rng.choice(STRANGE_TEXTS) if strange else rng.choice((FORGED, '["forged","zz"]', '["g","zz"]'))
    if pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        number = rng.choice(EXTREME_INTEGERS) if strange else at + rng.randrange(-(10**6), 10**6)
        if field.name in ("sequence", "grant", "tick") and not strange:
            number = version(1, rng.randrange(1, 10**6))
        return max(-limit, min(limit - 1, number))
    if pa.types.is_floating(kind):
        return rng.choice(EXTREME_NUMBERS) if strange else 1e6 + rng.random()
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_binary(kind):
        return rng.randbytes(rng.choice((0, 1, 8, 72, 200)))
    if pa.types.is_list(kind):
        return [_value(rng, kind.value_field, at) for _ in range(rng.choice((0, 1, 4, 80)))]
    assert pa.types.is_struct(kind), kind
    return {part.name: _value(rng, part, at) for part in kind}


class Forger:
    """Makes payloads of one kind of row: half of them bytes that were changed, half of them rows that are strange."""

    def __init__(self, seed: int, schema: pa.Schema, good: Sequence[bytes]) -> None:
        self._rng, self._schema, self._good = random.Random(seed), schema, list(good)

    def payload(self, at: int) -> bytes:
        """The next one, about the time `at`."""
        if self._rng.random() < 0.5:
            return mutated(self._rng, self._rng.choice(self._good))
        strange = pack(strange_batch(self._rng, self._schema, at))
        return mutated(self._rng, strange) if self._rng.random() < 0.1 else strange


def good_rows(schema: pa.Schema, at: int) -> Iterator[bytes]:
    """Payloads that are right but for who sends them: most plain, one of seven so large that it is compressed."""
    rng = random.Random(0)
    for size in (1, 5, 1, 5, 1, 5, 400):
        columns = []
        for field in schema:
            values = [_usual(rng, field, at + row, row) for row in range(size)]
            if pa.types.is_dictionary(field.type):
                columns.append(pa.array(values, field.type.value_type).dictionary_encode())
            else:
                columns.append(pa.array(values, field.type))
        yield pack(pa.record_batch(columns, schema=schema))


def _usual(rng: random.Random, field: pa.Field, at: int, row: int) -> object:
    kind = field.type
    if field.name == "kind":
        return rng.choice(("update", "hello", "heartbeat", "insert", "subscribe", "value"))
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return '["forged","zz"]' if field.name == "key" else FORGED
    if pa.types.is_integer(kind):
        if field.name in ("sequence", "grant"):
            return version(1, row + 1)
        return at if kind.bit_width == 64 else 7
    if pa.types.is_floating(kind):
        return 1e6 + row
    if pa.types.is_list(kind):
        return None
    return b"" if pa.types.is_binary(kind) else True


def of_updates(seed: int, at: int) -> dict[str, Forger]:
    """Forgers of what may stand in a topic of a stream's rows: rows, rows that tell a history, clocks, others' rows."""
    clocks = [pack(clock_batch(at, epoch, name)) for epoch, name in ((1, ""), (1, FORGED), (2**23 - 1, FORGED))]
    return {
        "updates": Forger(seed, UPDATES, [*good_rows(UPDATES, at)]),
        "history": Forger(seed + 1, UPDATES_WITH_HISTORY, [*good_rows(UPDATES_WITH_HISTORY, at)]),
        "clocks": Forger(seed + 2, UPDATES, clocks),
        "records": Forger(seed + 3, COMPACTED, [*good_rows(COMPACTED, at)]),
    }


def seed_of(name: str) -> int:
    """A seed that is the same in every process."""
    return int(np.frombuffer(name.encode().ljust(8, b"\0")[:8], np.uint64)[0] % 2**31)
