"""What the columns and the key of a stream or table must be."""

from __future__ import annotations

from tolerant.sql.errors import StatementError
from tolerant.sql.limits import MOST_COLUMNS
from tolerant.sql.options import check_options, check_table_options
from tolerant.sql.statements import CreateTable
from tolerant.sql.types import NUMERIC, TYPES
from tolerant.streams import Column, Stream


def check_stream(stream: Stream) -> None:
    """Raise StatementError unless the stream has a key, one number beside it, and options it can be run with."""
    _check_columns(stream.columns, stream.key)
    values = [column for column in stream.columns if column.name not in stream.key]
    if not values:
        raise StatementError(
            f"stream {stream.name} needs a column beside its key: the value that changes",
            expected="one column that is not in KEY",
            found="none",
            about=("KEY",),
        )
    if len(values) > 1:
        names = ", ".join(column.name for column in values)
        raise StatementError(
            f"stream {stream.name} has {len(values)} columns beside its key ({names}): one value an item",
            expected="one column that is not in KEY",
            found=names,
            about=(values[1].name,),
            hint="put the others into KEY, or make a key column that names the measurement, such as kind",
        )
    value = values[0]
    if value.type not in NUMERIC:
        raise StatementError(
            f"the value of stream {stream.name} is a number; column {value.name} is {value.type}",
            expected=f"one of {', '.join(NUMERIC)}",
            found=value.type,
            about=(value.name,),
        )
    check_options(stream)


def check_table(table: CreateTable) -> None:
    """Raise StatementError unless the table's columns and key are well formed, and its options limits."""
    _check_columns(table.columns, table.key)
    check_table_options(table.options)


def _check_columns(columns: tuple[Column, ...], key: tuple[str, ...]) -> None:
    names = [column.name for column in columns]
    if len(names) > MOST_COLUMNS:
        raise StatementError(f"a stream or table has at most {MOST_COLUMNS:,} columns, found {len(names):,}")
    for i, column in enumerate(columns):
        if column.name in names[:i]:
            raise StatementError(
                f"column {column.name} is declared twice", found=column.name, about=(column.name, column.name)
            )
        if column.type not in TYPES:
            raise StatementError(f"column {column.name} has no type that there is: {column.type}", found=column.type)
    for i, name in enumerate(key):
        if name not in names:
            raise StatementError(
                f"KEY names {name}, which is no column",
                expected=f"one of {', '.join(names)}",
                found=name,
                about=("KEY", name),
            )
        if name in key[:i]:
            raise StatementError(f"KEY names {name} twice", found=name, about=("KEY", name, name))
    if not key:
        raise StatementError("a KEY of at least one column is needed", expected="KEY (column, …)", found="none")
