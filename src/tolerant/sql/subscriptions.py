"""Subscriptions as a statement gives them, one or a file of them, as rows for `subscriptions.<table or pair>`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.sql.files import Columns, TypedFile
from tolerant.sql.predicates import Parameter
from tolerant.sql.spreads import reach_of
from tolerant.sql.statements import CreateQuery, Range, Subscribe, Unsubscribe
from tolerant.sql.templates import Tables, bound_parameters, parameter_types, ranges_of
from tolerant.transport.subscriptions import SUBSCRIBE, subscription_batches


def subscription_row(statement: Subscribe | Unsubscribe, query: CreateQuery, tables: Tables) -> pa.RecordBatch:
    """The one row of `SUBSCRIBE name(value, …)` or `UNSUBSCRIBE name(value, …)`.

    Raises:
        StatementError: the values cannot be given to the template's parameters.
    """
    columns = {name: pa.array([value]) for name, value in bound_parameters(statement, query, tables).items()}
    (batch,) = subscription_batches(query.name, parameter_types(query, tables), columns, statement.kind)
    return batch


class SubscriptionFile:
    """The subscriptions in a file, checked, as packed rows of at most 65,536; memory holds one such piece.

    The file has a column for each parameter, found by its name. Iterating gives the rows; then `accepted` and `refused`
    say how many subscriptions there were, and `reasons` has (row, reason) for the first twenty refused, the rows
    counted from 1 below the header. An end may be infinite.

    Raises:
        StatementError: when iterating, the file cannot be read, or lacks a column.
    """

    def __init__(self, path: Path | str, query: CreateQuery, tables: Tables, kind: str = SUBSCRIBE) -> None:
        self._name, self._types = query.name, parameter_types(query, tables)
        self._kind = kind
        self._file = TypedFile(
            path, self._types, infinite=True, check=_unusable(ranges_of(query), reach_of(query.select))
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for columns in self._file:
            yield from subscription_batches(self._name, self._types, columns, self._kind)

    @property
    def accepted(self) -> int:
        """How many subscriptions have been given so far."""
        return self._file.accepted

    @property
    def refused(self) -> int:
        """How many rows could not be used so far."""
        return self._file.refused

    @property
    def reasons(self) -> tuple[tuple[int, str], ...]:
        """The first of the refused rows, each with the reason."""
        return tuple(self._file.reasons)


def _unusable(
    ranges: tuple[Range, ...], reach: float
) -> Callable[[Columns], Iterator[tuple[NDArray[np.bool_], Callable[[int], str]]]]:
    """Finds the rows with a low end above its high end, or with a band beyond the query's reach."""

    def check(columns: Columns) -> Iterator[tuple[NDArray[np.bool_], Callable[[int], str]]]:
        for part in ranges:
            low, high = (_end(end, columns) for end in (part.low, part.high))
            above = pc.fill_null(pc.greater(low, high), False)
            if isinstance(above, pa.Array):
                yield above.to_numpy(zero_copy_only=False), _above(part, columns)
            beyond = pc.fill_null(pc.or_(pc.less(low, -reach), pc.greater(high, reach)), False)
            if isinstance(beyond, pa.Array):
                yield beyond.to_numpy(zero_copy_only=False), lambda row: f"the band is beyond the reach of ± {reach:g}"

    return check


def _end(end: Any, columns: Columns) -> Any:
    return columns[end.name] if isinstance(end, Parameter) else pa.scalar(end)


def _above(part: Range, columns: Columns) -> Callable[[int], str]:
    def shown(end: Any, row: int) -> str:
        return f"{end.name} = {columns[end.name][row].as_py()}" if isinstance(end, Parameter) else str(end)

    return lambda row: f"the range of {part.column} is empty: {shown(part.low, row)} is above {shown(part.high, row)}"
