"""Subscriptions as a statement gives them, one or a file of them, as rows for `subscriptions.<table or pair>`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Parameter
from tolerant.sql.select import Range
from tolerant.sql.statements import CreateQuery, Subscribe, Tables, Unsubscribe
from tolerant.sql.templates import (
    bound_parameters,
    check_names,
    is_rounded,
    parameter_number,
    parameter_types,
    ranges_of,
    rounds,
    why_empty,
)
from tolerant.sql.typed_files import Check, Columns, TypedFile
from tolerant.transport.changes import ARROW
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
        self._file = TypedFile(path, self._types, infinite=True, check=unusable(query, tables))

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


def bound_columns(query: CreateQuery, tables: Tables, given: Mapping[str, Any]) -> Columns:
    """The parameters of many subscriptions, a sequence or array each, in the types of the template's.

    Raises:
        StatementError: one is missing, of another type, or makes an empty range; says in which row, counted from 0.
    """
    check_names(query, given)
    types = parameter_types(query, tables)
    columns = {name: _typed(query, name, type_name, given[name]) for name, type_name in types.items()}
    if len(sizes := {len(values) for values in columns.values()}) > 1:
        raise StatementError(f"the parameters of {query.name} must be equally many, got {sorted(sizes)}")
    for bad, why in unusable(query, tables)(columns) if columns else ():
        if bad.any():
            row = int(np.argmax(bad))
            raise StatementError(f"row {row}: {why(row)}", about=(query.name,))
    return columns


def _typed(query: CreateQuery, name: str, type_name: str, given: Any) -> pa.Array:
    try:
        values = pa.array(given)
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            values = values.cast(ARROW[type_name])
            if not values.null_count and not pc.any(pc.is_nan(values), min_count=0).as_py():
                return values
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # some row cannot be used, or only by rounding: look at each
    numbers = []
    for row, value in enumerate(given):
        try:
            numbers.append(parameter_number(query, name, type_name, value))
        except StatementError as error:
            raise StatementError(f"row {row}: {error.reason}", expected=error.expected, found=error.found) from None
    return pa.array(numbers, ARROW[type_name])


def unusable(query: CreateQuery, tables: Tables) -> Check:
    """Finds the parameters that make no subscription: what `bound_parameters` refuses, for many at once."""
    reach = query.select.reach

    def check(columns: Columns) -> Iterator[tuple[NDArray[np.bool_], Callable[[int], str]]]:
        for part, of in zip(ranges_of(query), query.select.range_types(tables), strict=True):
            low, high = (_numbers(end, columns) for end in (part.low, part.high))
            if rounds(query, of):
                yield _rounded(low) | _rounded(high), _why_rounded(part, columns)
            yield _above(low, high) | _above(low, _LARGEST) | _above(-_LARGEST, high), _why_empty(part, columns)
            if reach < np.inf:
                beyond = _above(np.array(-reach), low) | _above(high, np.array(reach))
                yield beyond, lambda row: f"the band is beyond the reach of ± {reach:g}"

    return check


_LARGEST = np.array(np.finfo(np.float64).max)


def _numbers(end: Any, columns: Columns) -> NDArray[Any]:
    """The ends of a range for each row, integers as such; 0 where one is missing."""
    given = next(iter(columns.values()))
    if not isinstance(end, Parameter):
        return np.full(len(given), end)
    return pc.fill_null(columns[end.name], 0).to_numpy(zero_copy_only=False)


def _above(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """Where one is greater than the other, exactly: integers and floats are compared as Python's, which rounds none."""
    if first.dtype.kind != second.dtype.kind:
        first, second = first.astype(object), second.astype(object)
    with np.errstate(invalid="ignore"):  # a NaN, which has been refused already
        return (first > second).astype(np.bool_)


def _rounded(ends: NDArray[Any]) -> NDArray[np.bool_]:
    """`is_rounded` for many."""
    far = ~(_above(ends, np.array(-(2**53))) & _above(np.array(2**53), ends))
    if far.any():
        far[far] = [is_rounded(end) for end in ends[far].tolist()]
    return far


def _why_rounded(part: Range, columns: Columns) -> Callable[[int], str]:
    def why(row: int) -> str:
        shown = (_shown(end, columns, row) for end in (part.low, part.high))
        text = next(text for end, text in shown if is_rounded(end))
        return f"the range of {part.column} is compared as 64-bit floats, and {text} would be rounded"

    return why


def _why_empty(part: Range, columns: Columns) -> Callable[[int], str]:
    def why(row: int) -> str:
        (low, low_text), (high, high_text) = (_shown(end, columns, row) for end in (part.low, part.high))
        return f"the range of {part.column} is empty: {why_empty(low, high, low_text, high_text)}"

    return why


def _shown(end: Any, columns: Columns, row: int) -> tuple[Any, str]:
    """An end as a number, and as people are told."""
    if not isinstance(end, Parameter):
        return end, str(end)
    value = columns[end.name][row].as_py()
    return value, f"{end.name} = {value}"
