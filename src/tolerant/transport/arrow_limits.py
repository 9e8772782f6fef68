"""What an Arrow IPC stream says of its own size, read from its metadata before anything is decompressed.

PyArrow allocates whatever a message declares: 2,480 bytes may ask for 8 GB. So the few fields that say how much there
is are read here first: of each message the kind of header and the length of its body, of a schema the types of its
fields, of a batch its rows, its buffers and, where they are compressed, the size that each declares in its first eight
bytes. The metadata are flatbuffers (https://flatbuffers.dev/internals; `Message.fbs`, `Schema.fbs` of Apache Arrow).

A payload is what `rows.pack` writes: a schema, at most one batch of each of its dictionaries, one batch of rows, and
the end of the stream, which may be missing. Anything else is refused, because nobody would read it: a second batch, a
dictionary that is replaced or added to, bytes behind the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from tolerant.streams import Limits

_CONTINUES = b"\xff\xff\xff\xff"
_SCHEMA, _DICTIONARY, _ROWS = 1, 2, 3
_PLAIN_TYPES = frozenset([2, 3, 4, 5, 6, 8, 10, 12, 13, 16])
"""Int, FloatingPoint, Binary, Utf8, Bool, Date, Timestamp, List, Struct and FixedSizeList: what Tolerant's own rows are
made of. Each needs memory for every value, so that nobody can claim many for nothing.
"""
_LIST_VIEW = 25
"""Of a column of results: its lists may be parts of one another, so how long they are together is looked at later."""
_DEEPEST, _MOST_FIELDS = 8, 4096
_CACHED = 4 << 10  # bytes of metadata that are worth remembering


class Refused(ValueError):
    """The payload is not one batch, or a larger one than may be."""


@dataclass(frozen=True)
class Declared:
    """What a payload claims to hold: rows, and bytes once it is decompressed."""

    rows: int
    bytes: int


class _Message(NamedTuple):
    """What the metadata of a message say; of a schema, which is fine, nothing but its kind."""

    kind: int
    body: int = 0
    dictionary: int = 0
    is_addition: bool = False
    rows: int = 0
    longest: int = 0
    buffers: tuple[tuple[int, int], ...] = ()
    compressed: bool = False


def check_declared(payload: bytes, limits: Limits | None) -> Declared:
    """What the payload claims; `limits` None: any size is fine.

    Raises:
        Refused: it claims more than the limits allow or than its own bytes can hold, or is not one batch.
    """
    try:
        return _check(payload, limits)
    except struct.error:
        raise Refused("metadata point outside of the payload") from None


def _check(payload: bytes, limits: Limits | None) -> Declared:
    size, rows, dictionaries, expected = 0, -1, set[int](), _SCHEMA
    for message, begin in _messages(payload):
        if message.kind != expected and (message.kind, expected) != (_DICTIONARY, _ROWS):
            raise Refused("not a schema, its dictionaries and one batch of rows, in this order")
        if message.kind == _SCHEMA:
            expected = _ROWS
            continue
        if message.kind == _DICTIONARY and (message.is_addition or message.dictionary in dictionaries):
            raise Refused("a dictionary is replaced or added to, expected each once and whole")
        dictionaries.add(message.dictionary)
        size += _declared_bytes(payload, begin, message)
        if limits is not None and message.longest > limits.entry_rows:
            what = f"declares {message.longest:,} rows or values of a column"
            raise Refused(f"{what}, more than {limits.entry_rows:,} per entry")
        if limits is not None and size > limits.entry_bytes:
            raise Refused(f"declares {size:,} bytes once decompressed, more than {limits.entry_bytes:,} per entry")
        if message.kind == _ROWS:
            rows, expected = message.rows, 0
    if rows < 0:
        raise Refused("it ends before a batch of rows")
    return Declared(rows, size)


def _messages(payload: bytes) -> Iterator[tuple[_Message, int]]:
    """The messages, and where the body of each begins."""
    place, end = 0, len(payload)
    while place < end:
        if not payload.startswith(_CONTINUES, place):
            raise Refused("a message does not begin like one of an Arrow stream")
        (length,) = struct.unpack_from("<i", payload, place + 4)
        begin = place + 8 + length
        if length == 0:
            if begin != end:
                raise Refused(f"{end - begin} bytes follow the end of the stream")
            return
        if length < 0 or length % 8 or begin > end:
            raise Refused(f"a message claims {length} bytes of metadata, {end - place - 8} follow")
        metadata = payload[place + 8 : begin]
        message = _small_message(metadata) if length <= _CACHED else _message(metadata)
        if not 0 <= message.body <= end - begin or message.body % 8:
            raise Refused(f"a message claims a body of {message.body} bytes, {end - begin} follow")
        place = begin + message.body
        yield message, begin


def _declared_bytes(payload: bytes, begin: int, message: _Message) -> int:
    """The bytes of a batch's buffers once they are decompressed."""
    size = 0
    for offset, length in message.buffers:
        if offset < 0 or length < 0 or offset + length > message.body:
            raise Refused(f"a buffer claims bytes {offset} to {offset + length} of a body of {message.body}")
        if not message.compressed or length == 0:
            size += length
            continue
        if length < 8:
            raise Refused(f"a compressed buffer has {length} bytes, expected its size in the first 8")
        (declared,) = struct.unpack_from("<q", payload, begin + offset)
        if declared < -1:
            raise Refused(f"a compressed buffer declares {declared} bytes")
        size += length - 8 if declared == -1 else declared
    return size


def _message(metadata: bytes) -> _Message:
    root = _Table.root(metadata)
    kind, body, header = root.number(1, "<B"), root.number(3, "<q"), root.table(2)
    if header is None or kind not in (_SCHEMA, _DICTIONARY, _ROWS):
        raise Refused(f"a message is none of a schema, a dictionary or rows (Arrow's code {kind})")
    if kind == _SCHEMA:
        _check_schema(header)
        return _Message(kind, body)
    batch = header.table(1) if kind == _DICTIONARY else header
    if batch is None:
        raise Refused("a dictionary has no values")
    rows, values = batch.number(0, "<q"), [length for length, _ in batch.pairs(1)]
    if min([rows, *values]) < 0:
        raise Refused("a column declares fewer rows than none")
    number, is_addition = (header.number(0, "<q"), bool(header.number(2, "<B"))) if kind == _DICTIONARY else (-1, False)
    compressed = batch.table(3) is not None
    longest = max([rows, *values])
    return _Message(kind, body, number, is_addition, rows, longest, tuple(batch.pairs(2)), compressed)


# Payloads of one topic are much alike: most of their metadata have been read before.
_small_message = lru_cache(maxsize=1024)(_message)


def _check_schema(schema: _Table) -> None:
    """Refuse fields of types that Tolerant does not use, nested too deeply, or too many."""
    if schema.number(0, "<h"):
        raise Refused("its numbers are big-endian, expected little-endian")
    fields = list(islice(schema.tables(1), _MOST_FIELDS + 1))
    for depth in range(_DEEPEST):
        if len(fields) > _MOST_FIELDS:
            raise Refused(f"it has more than {_MOST_FIELDS} columns")
        for field in fields:
            if (code := field.number(2, "<B")) not in _PLAIN_TYPES and (depth, code) != (0, _LIST_VIEW):
                raise Refused(f"a column has a type that no row of Tolerant has (Arrow's code {code})")
        fields = list(islice(chain.from_iterable(field.tables(5) for field in fields), _MOST_FIELDS + 1))
        if not fields:
            return
    raise Refused(f"its columns are nested more than {_DEEPEST} deep")


class _Table:
    """A table of a flatbuffer; a field that is not there is 0, None or empty. Every place is checked."""

    __slots__ = ("_data", "_place", "_vtable", "_width")

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._vtable = place - self._read("<i", place)
        self._width = self._read("<H", self._vtable)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """The outermost table."""
        (place,) = struct.unpack_from("<I", data, 0)
        return cls(data, place)

    def number(self, field: int, form: str) -> int:
        """A number, in the form that `struct` reads."""
        place = self._find(field)
        return 0 if place is None else self._read(form, place)

    def table(self, field: int) -> _Table | None:
        """A table that this one refers to."""
        place = self._find(field)
        return None if place is None else _Table(self._data, place + self._read("<I", place))

    def tables(self, field: int) -> Iterator[_Table]:
        """The tables of a vector."""
        first, count = self._vector(field, 4)
        for place in range(first, first + 4 * count, 4):
            yield _Table(self._data, place + self._read("<I", place))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """The structs of a vector, each of two 64-bit integers."""
        first, count = self._vector(field, 16)
        numbers = struct.unpack_from(f"<{2 * count}q", self._data, first)
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        place = self._find(field)
        if place is None:
            return 0, 0
        place += self._read("<I", place)
        count = self._read("<I", place)
        if place + 4 + width * count > len(self._data):
            raise Refused(f"a vector of metadata claims {count} elements, more than its bytes")
        return place + 4, count

    def _find(self, field: int) -> int | None:
        """Where a field's value is."""
        slot = 4 + 2 * field
        if slot + 2 > self._width:
            return None
        offset = self._read("<H", self._vtable + slot)
        return self._place + offset if offset else None

    def _read(self, form: str, place: int) -> int:
        if place < 0:  # which struct would count from the end
            raise Refused("metadata point outside of the payload")
        (number,) = struct.unpack_from(form, self._data, place)
        return int(number)
