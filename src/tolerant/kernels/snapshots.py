"""Snapshots: the state of a shard in named fields, as bytes and back, bit for bit.

An object returns its fields as a `State`; its parts' states are fields too, so an array has a path, as in
`engine.sources.heard`. A class whose fields are its attributes declares them once, as `Fields` of a `Restorable`.
Reading a state checks that exactly the expected fields are there. A shard packs its state with its `Schema`, which
refuses bytes of another shard and of a schema number that nobody migrates.

`pack` and `unpack` are for arrays that have no schema: what is sent, or written to a file of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tolerant import __version__
from tolerant.kernels.texts import packed_texts, unpacked_texts

_ARRAYS = b"TOL2"  # bytes of `pack`
_SHARD = b"TOL3"  # bytes of `Schema.pack`
_TEXTS = "texts"  # instead of a dtype
_HEAD = struct.Struct("<4sqq")  # magic, bytes of the header, bytes of everything behind this head, uncompressed


class State(dict[str, Any]):
    """Fields by name: arrays, plain values (what JSON knows, infinities and NaN) and states of parts.

    An array may be of numbers, of records or of texts (object[n] of `str`). Records come back with their padding, but
    without the mark that they are aligned.

    >>> State(clock=5, heard=np.arange(3)).exactly("heard", "clock")
    (array([0, 1, 2]), 5)
    >>> State(clock=5, hard=1).exactly("clock", "heard")
    Traceback (most recent call last):
    ValueError: the state lacks 'heard' and has an unknown 'hard', expected the fields clock, heard
    """

    path = ""
    """Where it is in the state of its shard; "": at the top."""

    def exactly(self, *names: str) -> tuple[Any, ...]:
        """The values of these fields, in this order.

        Raises:
            ValueError: a field is missing, or there is another one; says which.
        """
        if len(names) != len(self) or not all(name in self for name in names):
            lacking = [f"lacks {name!r}" for name in names if name not in self]
            unknown = [f"has an unknown {name!r}" for name in self if name not in names]
            where = f"the state of {self.path}" if self.path else "the state"
            raise ValueError(f"{where} {' and '.join(lacking + unknown)}, expected the fields {', '.join(names)}")
        return tuple(self[name] for name in names)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All arrays, in those of the parts too, with their paths."""
        for name, value in self.items():
            if isinstance(value, State):
                yield from ((f"{name}.{inner}", array) for inner, array in value.arrays())
            elif isinstance(value, np.ndarray):
                yield name, value


Coding = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""How an attribute becomes a field: to what a `State` can hold, and back."""

SORTED_SET: Coding = (sorted, set)
"""A set as a sorted list."""

PAIRS: Coding = (lambda entries: list(map(list, entries.items())), dict)
"""A dictionary whose keys are numbers: JSON would make texts of them."""


@dataclass(frozen=True, init=False)
class Fields:
    """Declares which attributes of a class are its state. A field has the attribute's name without its underscore.

    `names`: arrays and plain values; `parts`: objects that have `state()` and `load(state)` themselves, and are loaded
    in place; `coded`: attributes of other types, each with its coding.

    >>> class Clock(Restorable):
    ...     FIELDS = Fields("at", _late=SORTED_SET)
    ...     def __init__(self):
    ...         self.at, self._late = 3, {2, 1}
    >>> Clock().state()
    {'at': 3, 'late': [1, 2]}
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    coded: Mapping[str, Coding]

    def __init__(self, *names: str, parts: Sequence[str] = (), **coded: Coding) -> None:
        for name, value in (("names", names), ("parts", tuple(parts)), ("coded", coded)):
            object.__setattr__(self, name, value)

    def attributes(self) -> tuple[str, ...]:
        """All attributes that are declared."""
        return (*self.names, *self.coded, *self.parts)

    def state(self, owner: Any) -> State:
        """The fields of the object; arrays, lists and dictionaries are copies, which later changes do not reach."""
        state = State()
        for name in self.names:
            value = getattr(owner, name)
            state[_field(name)] = value.copy() if isinstance(value, np.ndarray | list | dict) else value
        for name, (encode, _) in self.coded.items():
            state[_field(name)] = encode(getattr(owner, name))
        for name in self.parts:
            state[_field(name)] = getattr(owner, name).state()
        return state

    def load(self, owner: Any, state: State) -> None:
        """Give the object the fields that `state` returned; it owns the arrays from now on.

        Raises:
            ValueError: a field is missing, or there is another one; says which.
        """
        values = iter(state.exactly(*map(_field, self.attributes())))
        for name in self.names:
            setattr(owner, name, next(values))
        for name, (_, decode) in self.coded.items():
            setattr(owner, name, decode(next(values)))
        for name in self.parts:
            getattr(owner, name).load(next(values))


class Restorable:
    """An object whose state is what its class declares."""

    FIELDS: ClassVar[Fields]

    def state(self) -> State:
        """The declared fields, for a snapshot."""
        return self.FIELDS.state(self)

    def load(self, state: State) -> None:
        """Restore what `state` returned, bit for bit."""
        self.FIELDS.load(self, state)


def _field(attribute: str) -> str:
    return attribute.lstrip("_")


@dataclass(frozen=True)
class Schema:
    """What the snapshots of one kind of shard are: its name and the number of the layout of their fields.

    Whoever changes the fields of a shard, or of one of its parts, gives it the next number. `migrations` says how a
    state of number n becomes one of number n + 1. Release 0.1.0 resets the count: the layouts that it writes are
    number 1, whatever came before.
    """

    shard: str
    number: int
    migrations: Mapping[int, Callable[[State], State]] = field(default_factory=dict)

    def pack(self, state: State) -> bytes:
        """The state as bytes, with the name and number of the schema and this release of Tolerant.

        Raises:
            TypeError: a field is neither an array nor a plain value; names its path.
        """
        body: list[NDArray[np.uint8]] = []
        header = [self.shard, self.number, __version__, _written(state, body)]
        try:
            return _packed(_SHARD, header, body)
        except TypeError as error:
            raise TypeError(f"no field of a snapshot: {', '.join(_unwritable(state))}") from error

    def unpack(self, payload: bytes, most: int | None = None) -> State:
        """The state that `pack` made the bytes from, migrated where it is older. The arrays are writable copies.

        `most`: limit of the decompressed bytes; None: no limit, for bytes that this process packed.

        Raises:
            ValueError: the bytes are not a snapshot of this shard, or of a number that cannot be migrated.
        """
        (shard, number, release, written), body = _unpacked(_SHARD, payload, most)
        if shard != self.shard:
            raise ValueError(f"a snapshot of the shard {shard!r}, expected one of {self.shard!r}")
        state, current = _read(written, "", body), number
        while current < self.number and current in self.migrations:
            state, current = self.migrations[current](state), current + 1
        if current != self.number:
            raise ValueError(
                f"a snapshot of the shard {shard!r} with schema {number}, written by Tolerant {release}; Tolerant "
                f"{__version__} reads schema {self.number}. Run Tolerant {release}, or have the log read again"
            )
        return state


def pack(arrays: Mapping[str, NDArray[Any]], values: Any = None) -> bytes:
    """The arrays and a JSON-like value (infinities and NaN allowed) as one byte string.

    >>> arrays, values = unpack(pack({"x": np.arange(3)}, {"n": 1}))
    >>> arrays["x"].tolist(), values
    ([0, 1, 2], {'n': 1})
    """
    heads = [(name, array.dtype.str, list(array.shape)) for name, array in arrays.items()]
    return _packed(_ARRAYS, [heads, values], map(_bytes, arrays.values()))


def unpack(payload: bytes, most: int | None = None) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays (writable copies) and the value that `pack` made the bytes from.

    `most`: limit of the decompressed bytes; None: no limit, for bytes that this process packed.

    Raises:
        ValueError: the bytes were not made by `pack`, are cut short, or are more than `most`.
    """
    (heads, values), body = _unpacked(_ARRAYS, payload, most)
    return {name: body.next(dtype, shape) for name, dtype, shape in heads}, values


@cache
def _codec() -> Any:
    import pyarrow as pa  # cores declare their fields without loading Arrow

    return pa.Codec("zstd", compression_level=1)  # unused capacity is zeros: compresses to a thirtieth


def _packed(magic: bytes, header: Any, body: Iterable[NDArray[np.uint8]]) -> bytes:
    head = json.dumps(header, separators=(",", ":")).encode()
    content = b"".join([head, *(part.data for part in body)])
    return _HEAD.pack(magic, len(head), len(content)) + bytes(_codec().compress(content, asbytes=True))


def _unpacked(magic: bytes, payload: bytes, most: int | None = None) -> tuple[Any, _Body]:
    if payload[:4] != magic or len(payload) < _HEAD.size:
        raise ValueError("not a packed snapshot")
    _, offset, size = _HEAD.unpack_from(payload)
    if size < 0 or (most is not None and size > most):
        raise ValueError(f"a packed snapshot that declares {size:,} bytes, expected {most or 2**63:,} at most")
    try:
        content = _codec().decompress(payload[_HEAD.size :], size, asbytes=True)
    except OSError as error:
        raise ValueError(f"a packed snapshot that is cut short or damaged: {error}") from error
    return json.loads(content[:offset]), _Body(content, offset)


class _Body:
    """The arrays behind a header, one after the other."""

    def __init__(self, content: bytes, offset: int) -> None:
        self._content, self._offset = content, offset

    def next(self, dtype: Any, shape: Sequence[int]) -> NDArray[Any]:
        """A writable copy of the next array, of numbers or of records."""
        kind = np.lib.format.descr_to_dtype(dtype)
        raw = np.frombuffer(self._content, np.uint8, int(np.prod(shape)) * kind.itemsize, self._offset)
        self._offset += len(raw)
        return raw.copy().view(kind).reshape(shape)  # as bytes, since a copy of records may lack their padding


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _written(state: State, body: list[NDArray[np.uint8]]) -> list[Any]:
    """The header of a state: its plain values, what its arrays are, its parts. The arrays go to the body in the order
    in which `_read` takes them: those of the state, then those of its parts.
    """
    values, arrays = {}, []
    for name, value in state.items():
        if not isinstance(value, State | np.ndarray):
            values[name] = value
        elif isinstance(value, np.ndarray) and value.dtype == object:
            content, lengths = packed_texts(value)
            arrays.append((name, _TEXTS, value.shape))
            body += [_bytes(lengths), content]
        elif isinstance(value, np.ndarray):
            arrays.append((name, value.dtype.descr if value.dtype.names else value.dtype.str, value.shape))
            body.append(_bytes(value))
    parts = {name: _written(part, body) for name, part in state.items() if isinstance(part, State)}
    return [values, arrays, parts]


def _read(written: list[Any], path: str, body: _Body) -> State:
    values, arrays, parts = written
    state = State(values)
    state.path = path
    for name, dtype, shape in arrays:
        if dtype == _TEXTS:
            lengths = body.next("<i8", shape)
            state[name] = unpacked_texts(body.next("|u1", [int(lengths.sum())]), lengths)
        else:
            state[name] = body.next(dtype, shape)
    for name, part in parts.items():
        state[name] = _read(part, f"{path}.{name}" if path else name, body)
    return state


def _unwritable(state: State, path: str = "") -> Iterator[str]:
    """The paths of the fields that JSON does not know."""
    for name, value in state.items():
        if isinstance(value, State):
            yield from _unwritable(value, f"{path}{name}.")
        elif not isinstance(value, np.ndarray):
            try:
                json.dumps(value)
            except TypeError as error:
                yield f"{path}{name}: {error}"
