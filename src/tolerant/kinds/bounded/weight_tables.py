"""What a table must be to weigh a stream's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import NotAvailable, StatementError
from tolerant.sql.statements import AggregateSelect, CreateTable, Weight
from tolerant.sql.types import NUMERIC
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def check_weight(select: AggregateSelect, weight: Weight, stream: Stream, catalogue: Catalogue) -> None:
    """Raise StatementError unless the table gives each item at most one weight, through the stream's key columns."""
    table = catalogue.table(weight.table)
    if table.uri is None:
        raise NotAvailable(
            f"weights from a table that is fed through the log are not available yet: table {table.name}",
            hint="CREATE TABLE … FROM 'file.csv'",
            about=("JOIN", table.name),
        )
    _check_weight_column(weight, table)
    for stream_column, table_column in weight.on:
        _check_pair(stream_column, table_column, stream, table)
    if any(len(key) != len(weight.on) for key, _ in weight.values or ()):
        raise StatementError(f"the weights of table {table.name} have keys of other than {len(weight.on)} parts")
    joined = sorted(column for _, column in weight.on)
    if joined != sorted(table.key):
        raise StatementError(
            f"table {table.name} must be joined on its whole key ({', '.join(table.key)}), found {', '.join(joined)}",
            expected=f"a condition for each of {', '.join(table.key)}",
            found=", ".join(joined),
            hint="an item must have one weight, not several",
            about=("JOIN", table.name),
        )


def _check_weight_column(weight: Weight, table: CreateTable) -> None:
    type_name = table.type_of(weight.column)
    if type_name is None:
        raise StatementError(
            f"table {table.name} has no column {weight.column}",
            expected=f"one of {', '.join(column.name for column in table.columns)}",
            found=weight.column,
            about=("SELECT", weight.column),
        )
    if type_name not in NUMERIC:
        raise StatementError(
            f"a weight is a number; column {weight.column} of {table.name} is {type_name}",
            expected=f"one of {', '.join(NUMERIC)}",
            found=type_name,
            about=("SELECT", weight.column),
        )


def _check_pair(stream_column: str, table_column: str, stream: Stream, table: CreateTable) -> None:
    if stream_column not in stream.key:
        raise StatementError(
            f"weights are joined on key columns of {stream.name} ({', '.join(stream.key)}), found {stream_column}",
            expected=f"one of {', '.join(stream.key)}",
            found=stream_column,
            about=("JOIN", stream_column),
        )
    stream_type = stream.key_types[stream.key.index(stream_column)]
    table_type = table.type_of(table_column)
    if table_type is None:
        raise StatementError(
            f"table {table.name} has no column {table_column}",
            expected=f"one of {', '.join(table.key)}",
            found=table_column,
            about=("JOIN", table_column),
        )
    if stream_type != table_type and not (stream_type in NUMERIC and table_type in NUMERIC):
        raise StatementError(
            f"{stream.name}.{stream_column} is {stream_type}, {table.name}.{table_column} {table_type}: never equal",
            expected=stream_type,
            found=table_type,
            about=("JOIN", table_column),
        )
