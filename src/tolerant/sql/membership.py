"""Which items are in which bounded query and group, with which weight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tolerant.queries import Aggregate
from tolerant.sql.predicates import And, Between, Compare, In, Not, Or, Predicate, matches
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import KeyPart, Stream, key_parts, key_text

_SEPARATOR = "\x00"
_LONG = 256
_FEW = 64
"""Up to this many keys, a loop is faster than arrays."""


def instance_name(query: str, group: str) -> str:
    """The name under which the coordinator knows a group of a query."""
    return query + _SEPARATOR + group


def query_and_group(instance: str) -> tuple[str, str]:
    """The inverse of `instance_name`."""
    query, _, group = instance.partition(_SEPARATOR)
    return query, group


def shown_name(instance: str) -> str:
    """A group of a query as people read it.

    >>> shown_name(instance_name("total", "")), shown_name(instance_name("total", "web-1"))
    ('total', 'total [web-1]')
    """
    query, group = query_and_group(instance)
    return f"{query} [{group}]" if group else query


class Keys:
    """Keys of a stream with their parts, by column."""

    def __init__(self, stream: Stream, texts: Sequence[str]) -> None:
        self._stream = stream
        self.parts: Sequence[tuple[KeyPart, ...]] = [key_parts(text, stream.key_types) for text in texts]

    @classmethod
    def of_parts(cls, stream: Stream, parts: Sequence[tuple[KeyPart, ...]]) -> Keys:
        """Keys whose parts are known."""
        keys = cls(stream, ())
        keys.parts = parts
        return keys

    def __len__(self) -> int:
        return len(self.parts)

    def row(self, index: int) -> dict[str, KeyPart]:
        """Column → value of one key."""
        return dict(zip(self._stream.key, self.parts[index], strict=True))

    @cached_property
    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Column → the values of all keys."""
        return {name: _column([parts[i] for parts in self.parts]) for i, name in enumerate(self._stream.key)}


def _column(values: list[KeyPart]) -> NDArray[np.generic]:
    """The values as an array; as one of objects where NumPy's texts will not do, which are all as long as the longest
    and have no NUL at their end.
    """
    if not values or not isinstance(values[0], str):  # all are of the column's type
        return np.array(values)
    is_plain = all(len(value) <= _LONG and "\x00" not in value for value in values)  # type: ignore[arg-type, operator]
    return np.array(values) if is_plain else np.array(values, object)


def members(select: AggregateSelect, keys: Keys) -> dict[str, dict[int, float]]:
    """Group → {position in `keys`: weight}, for the keys that the query is about. Without GROUP BY the group is ''."""
    chosen = np.flatnonzero(matching(select.where, keys))
    weights = None
    if select.weight is not None and select.weight.values is not None:
        weights = {tuple(key): value for key, value in select.weight.values}
    groups: dict[str, dict[int, float]] = {}
    for index in chosen.tolist():
        weight = select.factor
        row = keys.row(index) if select.group_by or weights is not None else {}
        if weights is not None and select.weight is not None:
            own = weights.get(tuple(row[column] for column, _ in select.weight.on))
            if own is None:
                continue
            weight *= own
        group = key_text(tuple(row[column] for column in select.group_by)) if select.group_by else ""
        groups.setdefault(group, {})[index] = weight
    return groups


def aggregate(query: str, group: str, select: AggregateSelect, weights: dict[str, float]) -> Aggregate:
    """A group of a query as the coordinator takes it."""
    return Aggregate(instance_name(query, group), select.fn, weights, select.within)


def matching(where: Predicate | None, keys: Keys) -> NDArray[np.bool_]:
    """For each key whether it satisfies the condition."""
    if where is None:
        return np.ones(len(keys), np.bool_)
    if len(keys) <= _FEW:
        return np.array([matches(where, keys.row(index)) for index in range(len(keys))], np.bool_)
    return _vector(where, keys.columns, keys)


def _vector(where: Predicate, columns: dict[str, NDArray[np.generic]], keys: Keys) -> NDArray[np.bool_]:
    """`matches` for every key at once; statements were checked, so that like is compared with like."""
    match where:
        case And(parts):
            return np.logical_and.reduce([_vector(part, columns, keys) for part in parts])
        case Or(parts):
            return np.logical_or.reduce([_vector(part, columns, keys) for part in parts])
        case Not(part):
            return ~_vector(part, columns, keys)
        case Between(column, low, high) if _like(columns[column], low, high):
            values = columns[column]
            return np.asarray((values >= low) & (values <= high))  # type: ignore[operator]
        case In(column, options) if _like(columns[column], *options):
            return np.isin(columns[column], np.array(options))
        case Compare(column, op, value) if _like(columns[column], value):
            return _compared(columns[column], op, value)
    return np.array([matches(where, keys.row(index)) for index in range(len(keys))], np.bool_)


def _like(values: NDArray[np.generic], *others: object) -> bool:
    kind = values.dtype.kind
    if kind == "U":
        return all(isinstance(other, str) for other in others)
    return kind in "if" and all(isinstance(other, int | float) and not isinstance(other, bool) for other in others)


def _compared(values: NDArray[np.generic], op: str, value: object) -> NDArray[np.bool_]:
    compare = {
        "=": np.equal,
        "<>": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }[op]
    chosen: NDArray[np.bool_] = compare(values, np.array(value))
    return chosen
