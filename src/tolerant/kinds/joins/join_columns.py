"""A join query as its core sees it: rows and ranges as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.joins import TwoSidedBandJoins, TwoSidedSelectJoins
from tolerant.kinds.joins.select import BandJoinSelect, JoinSelect
from tolerant.sql.predicates import Operand, Parameter
from tolerant.sql.statements import CreateQuery, CreateTable
from tolerant.sql.templates import ranges_of

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

_EXACT = ("INT", "FLOAT", "DOUBLE")  # types whose every value is a float64


class Codes:
    """A float for each value that rows are joined on, the same for equal ones, where the values are no floats.

    `take` counts a value once for each row that has it and `drop` takes that back: values that no row has any more are
    forgotten. Which float stands for a value is of no account.

    >>> codes = Codes()
    >>> codes.take(["a", "b", "a"]).tolist(), codes.of(["b"]).tolist()
    ([0.0, 1.0, 0.0], [1.0])
    >>> codes.drop(["a", "a"])
    >>> len(codes)
    1
    """

    def __init__(self) -> None:
        self._code: dict[Any, float] = {}
        self._count: dict[Any, int] = {}
        self._next = 0.0

    def __len__(self) -> int:
        return len(self._code)

    def take(self, values: Iterable[Any]) -> Floats:
        """The codes of values of rows that come."""
        codes = []
        for value in values:
            code = self._code.get(value)
            if code is None:
                code = self._code[value] = self._next
                self._next += 1.0
            self._count[value] = self._count.get(value, 0) + 1
            codes.append(code)
        return np.array(codes, np.float64)

    def of(self, values: Iterable[Any]) -> Floats:
        """The codes of values of rows that are there."""
        return np.array([self._code[value] for value in values], np.float64)

    def drop(self, values: Iterable[Any]) -> None:
        """Rows with these values have gone."""
        for value in values:
            self._count[value] -= 1
            if not self._count[value]:
                del self._count[value], self._code[value]


class Joining:
    """How the rows of the two tables of a join become what `tolerant.joins` takes; `left` is R there, `right` S."""

    def __init__(self, query: CreateQuery, left: CreateTable, right: CreateTable) -> None:
        select = JoinSelect.of(query)
        self._select, self._query, self._reach = select, query, select.reach
        self._is_band = BandJoinSelect.matching(query) is not None
        types = left.type_of(select.on[0]), right.type_of(select.on[1])
        coded = not self._is_band and not set(types) <= set(_EXACT)
        self._codes = Codes() if coded else None

    def core(self) -> TwoSidedBandJoins | TwoSidedSelectJoins:
        """An empty core for this join."""
        return TwoSidedBandJoins() if self._is_band else TwoSidedSelectJoins()

    def ends(self, size: int, parameters: Columns) -> tuple[Floats, ...]:
        """The ends of the ranges of `size` subscriptions, as `add_many` takes them.

        Raises:
            ValueError: a range is empty.
        """
        bounds: list[Floats] = []
        for part in ranges_of(self._query):
            low, high = _filled(part.low, size, parameters), _filled(part.high, size, parameters)
            if not ((low <= high) & (low < np.inf) & (high > -np.inf)).all():
                raise ValueError(f"a range of {part.column} has a low end above its high end, or is empty")
            if not ((low >= -self._reach) & (high <= self._reach)).all():
                raise ValueError(f"a range of {part.column} is beyond the reach of ± {self._reach:g} of its query")
            bounds += [low, high]
        return tuple(bounds)

    def values(self, side: int, columns: Columns, comes: NDArray[np.bool_]) -> tuple[Floats, ...]:
        """Rows of a side (0: left, 1: right) as numbers; `comes`: they are new, or else they are there."""
        if self._is_band:
            return (_floats(columns[self._select.on[side]]),)
        part = ranges_of(self._query)[side]
        joined, ranged = self._joined(columns[self._select.on[side]], comes), _floats(columns[part.column])
        return (ranged, joined) if side == 0 else (joined, ranged)

    def drop(self, side: int, columns: Columns) -> None:
        """Rows of a side have gone, and nobody speaks of them any more."""
        if self._codes is not None:
            self._codes.drop(columns[self._select.on[side]].tolist())

    def _joined(self, values: NDArray[Any], comes: NDArray[np.bool_]) -> Floats:
        if self._codes is None:
            return _floats(values)
        codes = np.empty(len(values))
        codes[comes] = self._codes.take(values[comes].tolist())
        codes[~comes] = self._codes.of(values[~comes].tolist())
        return codes


def _floats(values: NDArray[Any]) -> Floats:
    return values.astype(np.float64)


def _filled(end: Operand, size: int, parameters: Columns) -> Floats:
    if isinstance(end, Parameter):
        return np.asarray(parameters[end.name], np.float64)
    return np.full(size, end, np.float64)
