"""Checks rows of a table as applications pass them in; what does not fit is refused with its column and position."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tolerant.edge.keys import ItemKey
from tolerant.sql import CreateTable
from tolerant.sql.types import is_value
from tolerant.streams import Column, KeyPart, key_parts, key_text
from tolerant.transport.changes import ARROW

ManyRows: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Sequence[tuple[Any, ...]] | Any
"""Rows by the column: a mapping from names to arrays, lists or Arrow arrays, a pandas frame, or anything that Arrow can
read as a table (`__arrow_c_stream__`: an Arrow table, a polars frame). Or row by row: a list of mappings, or of tuples
in the order of the table's columns."""

_FLOATS = ("FLOAT", "DOUBLE")


def row_values(row: Mapping[str, Any], table: CreateTable) -> tuple[KeyPart, ...]:
    """Return the values of a row in the order of the table's columns, each of its column's type.

    Raises:
        ValueError: a column is missing, unknown, or its value is not of its type; NaN and infinities are of none.
    """
    _check_names(list(row), table)
    try:
        return tuple(_value(row[column.name], column) for column in table.columns)
    except ValueError as error:
        raise ValueError(f"{error} in row {dict(row)!r:.200}") from None


def key_of(values: tuple[KeyPart, ...], table: CreateTable) -> str:
    """Return the key text of a row that `row_values` returned."""
    by_name = dict(zip((column.name for column in table.columns), values, strict=True))
    return key_text(tuple(by_name[name] for name in table.key))


def key_given(key: ItemKey, table: CreateTable) -> str:
    """Return the key text of a key as an application passes it: the values of the key columns (of a single column the
    value itself), or the text.

    Raises:
        ValueError: it does not fit the table's key.
    """
    columns = [column for name in table.key for column in table.columns if column.name == name]
    types = tuple(column.type for column in columns)
    parts: object = key if isinstance(key, tuple) else (key,)
    if isinstance(key, str) and types != ("STRING",):
        try:
            parts = key_parts(key, types)
        except ValueError:
            parts = None
    if not isinstance(parts, tuple) or len(parts) != len(columns):
        listed = ", ".join(f"{column.name} {column.type}" for column in columns)
        raise ValueError(f"key {key!r} must be ({listed}) of table {table.name!r}, or its key text")
    return key_text(tuple(_value(part, column) for part, column in zip(parts, columns, strict=True)))


def column_values(rows: ManyRows, table: CreateTable) -> dict[str, pa.Array]:
    """Return rows as columns, each in the Arrow type of its column.

    Raises:
        ValueError: a column is missing, unknown, or has a value that is not of its type.
    """
    given = _by_column(rows, table)
    _check_names(list(given), table)
    columns = {column.name: _column(given[column.name], column) for column in table.columns}
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"columns must be equally long, got {sizes}")
    return columns


def without_negative_zero(values: pa.Array) -> pa.Array:
    """Both zeros as one: they are equal, and must be one key."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _by_column(rows: ManyRows, table: CreateTable) -> Mapping[str, Any]:
    if isinstance(rows, Mapping):
        return rows
    pandas = sys.modules.get("pandas")  # whoever hands in a frame has loaded it
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        _refuse_repeated(list(rows.columns))
        return {name: rows[name] for name in rows.columns}  # the index is no column
    if isinstance(rows, pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__"):
        try:
            read = pa.table(rows)
        except (pa.ArrowException, TypeError) as error:
            raise ValueError(f"rows cannot be read as an Arrow table: {error!s:.200}") from None
        _refuse_repeated(read.schema.names)
        return dict(zip(read.schema.names, read.columns, strict=True))
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return _transposed(rows, table)
    raise ValueError(
        "rows must be a mapping from columns to arrays, a pandas, polars or Arrow table, or a list of rows,"
        f" got {type(rows).__name__}"
    )


def _refuse_repeated(names: list[Any]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"columns must have different names, got {names}")


def _transposed(rows: Sequence[Any], table: CreateTable) -> dict[str, list[KeyPart]]:
    """Turn a list of rows into columns."""
    names = [column.name for column in table.columns]
    values = []
    for number, row in enumerate(rows):
        try:
            if not isinstance(row, Mapping) and (not isinstance(row, tuple | list) or len(row) != len(names)):
                raise ValueError(f"a row must be a mapping or a tuple ({', '.join(names)}), got {row!r:.60}")
            values.append(row_values(row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)), table))
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from None
    return {name: [row[place] for row in values] for place, name in enumerate(names)}


def _check_names(names: list[str], table: CreateTable) -> None:
    known = [column.name for column in table.columns]
    for name in known:
        if name not in names:
            raise ValueError(f"column {name!r} is missing: table {table.name!r} has {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ValueError(f"table {table.name!r} has no column {name!r}: it has {', '.join(known)}")


def _value(value: object, column: Column) -> KeyPart:
    if isinstance(value, np.generic):
        value = value.item()
    if is_value(column.type, value) and _is_unicode(value):
        if column.type not in _FLOATS:
            return value  # type: ignore[return-value]
        number = float(value)  # type: ignore[arg-type]
        with np.errstate(over="ignore"):
            number = (float(np.float32(number)) if column.type == "FLOAT" else number) + 0.0
        if math.isfinite(number):
            return number
    what = "STRING in valid Unicode" if column.type == "STRING" and not _is_unicode(value) else column.type
    raise ValueError(f"column {column.name!r} must be {what}, got {value!r:.60}")


def _is_unicode(value: object) -> bool:
    """Whether a text can be written as UTF-8: one with half of a surrogate pair cannot."""
    try:
        return not isinstance(value, str) or value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _column(values: Any, column: Column) -> pa.Array:
    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        array = _decoded(array) if pa.types.is_dictionary(array.type) else array
        array.validate(full=True)
        if len(array) and not _fits(array.type, column.type):
            raise ValueError(f"column {column.name!r} must be {column.type}, got {array.type}")
        array = array.cast(ARROW[column.type])
    except (pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise ValueError(
            _reason(values, column) or f"column {column.name!r} must be {column.type}: {error!s:.200}"
        ) from None
    bad = pc.is_null(array, nan_is_null=True)
    if column.type in _FLOATS:
        bad = pc.or_(bad, pc.fill_null(pc.invert(pc.is_finite(array)), True))
    where = pc.index(bad, True).as_py()
    if where >= 0:
        raise ValueError(f"column {column.name!r} must be {column.type}, got {array[where].as_py()!r} at row {where}")
    return without_negative_zero(array)


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    """Return the values of categories. Arrow takes none from polars' own strings, which are views."""
    values = array.dictionary.cast(pa.string()) if pa.types.is_string_view(array.dictionary.type) else array.dictionary
    return values.take(array.indices)


def _reason(values: Any, column: Column) -> str | None:
    """Say what is wrong with the first value that is not of the column's type; None if no such value can be named."""
    try:
        each = values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else values
        for number, value in enumerate(each):
            try:
                _value(value, column)
            except ValueError as error:
                return f"{error} at row {number}"
    except (TypeError, ValueError):
        pass
    return None


def _fits(arrow_type: pa.DataType, type_name: str) -> bool:
    if type_name == "STRING":
        return (
            pa.types.is_string(arrow_type)
            or pa.types.is_large_string(arrow_type)
            or pa.types.is_string_view(arrow_type)
        )
    if type_name == "BOOLEAN":
        return pa.types.is_boolean(arrow_type)
    return pa.types.is_integer(arrow_type) or (type_name in _FLOATS and pa.types.is_floating(arrow_type))
