"""The weights of a query, read from its table's file (CSV with a header, or Parquet) when it is registered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from tolerant.sql.catalogue import Catalogue
from tolerant.sql.errors import StatementError
from tolerant.sql.statements import CreateTable, Weight
from tolerant.sql.types import is_value
from tolerant.streams import KeyPart

_TRUTH = {"true": True, "false": False}


def with_weights(weight: Weight, catalogue: Catalogue, base_dir: Path) -> Weight:
    """The weights that the table's file holds.

    Raises:
        StatementError: the file cannot be used; names the file, the row and the column.
    """
    table = catalogue.table(weight.table)
    if table.uri is None:
        raise StatementError(f"table {table.name} has no file to read weights from")
    path = base_dir / table.uri
    names = [column for _, column in weight.on]
    columns = _read(path, table, [*names, weight.column])
    rows = [(tuple(parts), float(number)) for *parts, number in zip(*columns, strict=True)]
    _refuse_duplicates(path, names, [key for key, _ in rows])
    return replace(weight, values=tuple(sorted(rows)))


def _read(path: Path, table: CreateTable, names: list[str]) -> list[list[Any]]:
    """The values of the columns, checked against the types that the table declares."""
    content = _content(path)
    columns = []
    for name in names:
        if name not in content.column_names:
            raise StatementError(
                f"{path.name}: expected a column {name}, found {', '.join(content.column_names) or 'none'}",
                expected=f"a column {name}",
                found=", ".join(content.column_names),
            )
        type_name = table.type_of(name) or ""
        values = content.column(content.column_names.index(name)).to_pylist()
        from_text = path.suffix.lower() == ".csv"
        columns.append([_value(path, row, name, type_name, raw, from_text) for row, raw in enumerate(values, 1)])
    return columns


def _content(path: Path) -> pa.Table:
    try:
        if path.suffix.lower() == ".parquet":
            return parquet.read_table(path)
        header = csv.open_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True)).schema.names
        # As text: our own reading names the row that is wrong, and takes no 007 for 7 where the column is STRING.
        types = csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
        return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=types)
    except FileNotFoundError:
        raise StatementError(f"there is no file {path.name}", expected="a file", found=f"nothing at {path}") from None
    except (OSError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise StatementError(f"{path.name} cannot be read: {error!s:.200}", found=path.name) from None


def _value(path: Path, row: int, column: str, type_name: str, raw: object, from_text: bool) -> KeyPart:
    value = _from_text(type_name, raw) if from_text and isinstance(raw, str) else raw
    if type_name in ("DOUBLE", "FLOAT") and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not is_value(type_name, value):
        raise StatementError(
            f"{path.name}, row {row}, column {column}: expected {type_name}, found {raw!r:.60}",
            expected=type_name,
            found=f"{raw!r:.60}",
            hint="rows are counted from 1 below the header" if from_text else "",
        )
    return value  # type: ignore[return-value]


def _from_text(type_name: str, raw: str) -> object:
    """The value that a CSV field says; the field itself if it says none."""
    try:
        if type_name == "STRING":
            return raw
        if type_name == "BOOLEAN":
            return _TRUTH.get(raw.strip().lower(), raw)
        return int(raw) if type_name in ("INT", "BIGINT") else float(raw)
    except ValueError:
        return raw


def _refuse_duplicates(path: Path, names: list[str], keys: list[tuple[KeyPart, ...]]) -> None:
    rows: dict[tuple[KeyPart, ...], int] = {}
    for row, key in enumerate(keys, 1):
        first = rows.setdefault(key, row)
        if first != row:
            shown = ", ".join(f"{name} = {part!r:.40}" for name, part in zip(names, key, strict=True))
            raise StatementError(
                f"{path.name}, row {row}: the key {shown} stands in row {first} already",
                expected="one row per key",
                found=f"rows {first} and {row}",
            )
