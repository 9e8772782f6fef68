"""Statements that are carried out by whoever reads them: SHOW, INSERT, DELETE and a SELECT that is asked once."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal, cast

from sqlglot import exp

from tolerant.sql.catalogue import Catalogue
from tolerant.sql.clauses import peel
from tolerant.sql.conditions import Conditions
from tolerant.sql.cursor import Cursor
from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import And, Compare, In, Or, Predicate
from tolerant.sql.refusals import unknown
from tolerant.sql.row_selects import parsed, read_select
from tolerant.sql.scope import Scope, place
from tolerant.sql.statements import CreateTable, DeleteRows, InsertRows, LocalStatement, SelectRows, Show
from tolerant.sql.types import is_value
from tolerant.streams import KeyPart

MOST_KEYS = 100_000
"""Keys that one DELETE may name."""

_STANDING = (
    "a query that stands is named, CREATE QUERY name AS SELECT …; asked once, over a table, it has no such clause"
)


def read_show(cursor: Cursor) -> Show:
    """`SHOW QUERIES | STREAMS | TABLES`, or `SHOW SUBSCRIPTIONS [TO query] [LIMIT n] [OFFSET n]`."""
    cursor.take_word("SHOW")
    what = cursor.take_word("QUERIES", "STREAMS", "TABLES", "SUBSCRIPTIONS").lower()
    if what != "subscriptions":
        cursor.end("';'")
        return Show(cast(Literal["queries", "streams", "tables"], what))
    name = cursor.take_relation("the name of a query") if cursor.skip_word("TO") else ""
    limit = _count(cursor) if cursor.skip_word("LIMIT") else None
    offset = _count(cursor) if cursor.skip_word("OFFSET") else 0
    cursor.end("TO, LIMIT, OFFSET or ';'")
    return Show("subscriptions", name, limit, offset)


def _count(cursor: Cursor) -> int:
    place_of_number = cursor.here()
    number = cursor.take_number("a number of subscriptions")
    if not isinstance(number, int) or number < 0:
        raise StatementError(f"expected a whole number, 0 or more, found {number}", span=place_of_number)
    return number


def read_insert(cursor: Cursor) -> InsertRows:
    """`INSERT INTO name [(column, …)] VALUES (value, …), …`."""
    cursor.take_word("INSERT")
    cursor.take_word("INTO")
    name = cursor.take_relation("the name of a table")
    columns = tuple(column for column, _ in cursor.take_list("a column")) if cursor.at_symbol("(") else ()
    cursor.take_word("VALUES")
    rows = [_row(cursor)]
    while not cursor.done:
        cursor.take_symbol(",")
        rows.append(_row(cursor))
    return InsertRows(name, columns, tuple(rows))


def _row(cursor: Cursor) -> tuple[KeyPart, ...]:
    cursor.take_symbol("(")
    values = [cursor.take_constant()]
    while cursor.take_symbol(",", ")") == ",":
        values.append(cursor.take_constant())
    return tuple(values)


def read_delete(cursor: Cursor) -> DeleteRows:
    """`DELETE FROM name WHERE condition`."""
    cursor.take_word("DELETE")
    cursor.take_word("FROM")
    name = cursor.take_relation("the name of a table")
    if not cursor.skip_word("WHERE"):
        raise cursor.fail("WHERE and the keys to delete, such as WHERE id = 7 or WHERE id IN (7, 8)")
    tree = parsed(cursor.text, cursor.tokens, exp.Delete, "DELETE FROM table WHERE condition")
    others = [part for part, value in tree.args.items() if value and part not in ("this", "where")]
    if others or not isinstance(tree.this, exp.Table) or tree.this.alias:
        raise StatementError("expected DELETE FROM table WHERE condition, and nothing else", span=place(tree))
    conditions = Conditions(Scope(cursor.text, {name: name}, ()))
    conditions.add(tree.args["where"].this)
    parts = tuple(condition.predicate for condition in conditions.where)
    if not parts:
        raise StatementError("expected a condition that names keys", span=place(tree))
    return DeleteRows(name, parts[0] if len(parts) == 1 else And(parts))


def read_select_rows(cursor: Cursor) -> SelectRows:
    """`SELECT … FROM table …`, without any of a standing query's clauses."""
    own, clauses = peel(cursor.text, cursor.rest())
    if clauses.written():
        raise cursor.fail("a SELECT over a table, which has no such clauses", hint=_STANDING)
    tree = parsed(cursor.text, own, exp.Select, "a single SELECT")
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or source.this.args.get("db"):
        raise StatementError("expected FROM and the name of a table", expected="FROM and a table", span=place(tree))
    return SelectRows(source.this.name, cursor.text[own[0].start : own[-1].end + 1])


def check_local(statement: LocalStatement, catalogue: Catalogue, start: int) -> None:
    """Raise StatementError if the catalogue does not allow a statement, whose text begins at this offset."""
    match statement:
        case Show(what="subscriptions", name=name) if name:
            if name not in catalogue.queries:
                raise unknown("query", name, catalogue.queries, "TO", name)
        case InsertRows(name=name):
            inserted_rows(statement, _table(name, catalogue, "INTO"))
        case DeleteRows(name=name):
            deleted_keys(statement, _table(name, catalogue, "FROM"))
        case SelectRows(name=name):
            try:
                read_select(statement.sql, _table(name, catalogue, "FROM"))
            except StatementError as error:
                error.span = None if error.span is None else (error.span[0] + start, error.span[1] + start)
                raise


def _table(name: str, catalogue: Catalogue, before: str) -> CreateTable:
    if name in catalogue.streams:
        raise StatementError(
            f"expected a table, found the stream {name}",
            expected="a table",
            found=f"stream {name}",
            hint=f"the values of a stream are at its sources: CREATE QUERY name AS SELECT … FROM {name} WITHIN …"
            if before == "FROM"
            else f"the values of a stream come from its sources: tolerant.edge.Source({name!r}, …)",
            about=(before, name),
        )
    if name not in catalogue.tables:
        raise unknown("table", name, catalogue.tables, before, name)
    return catalogue.tables[name]


def inserted_rows(statement: InsertRows, table: CreateTable) -> list[dict[str, KeyPart]]:
    """The rows of an INSERT, by column.

    Raises:
        StatementError: they do not fit the table; says which row, counted from 1, and which column.
    """
    names = statement.columns or tuple(column.name for column in table.columns)
    known = [column.name for column in table.columns]
    for name in names:
        if name not in known or names.count(name) > 1:
            what = f"table {table.name} has no column {name}" if name not in known else f"column {name} is named twice"
            raise StatementError(what, expected=f"one of {', '.join(known)}", found=name, about=(table.name, name))
    missing = [name for name in known if name not in names]
    if missing:
        raise StatementError(
            f"column {missing[0]} is missing: rows of {table.name} have all of {', '.join(known)}",
            expected=", ".join(known),
            about=(table.name,),
        )
    rows = []
    for number, values in enumerate(statement.rows, 1):
        if len(values) != len(names):
            raise StatementError(
                f"row {number} has {len(values)} values, expected {len(names)}: {', '.join(names)}",
                expected=f"{len(names)} values",
                found=str(len(values)),
                about=("VALUES",),
            )
        row = dict(zip(names, values, strict=True))
        for name, value in row.items():
            _check_value(table, name, value, f"row {number}, ")
        rows.append(row)
    return rows


def _check_value(table: CreateTable, name: str, value: Any, where: str = "") -> None:
    type_name = table.type_of(name) or ""
    if not is_value(type_name, value):
        raise StatementError(
            f"{where}column {name} takes {type_name}, found {value!r:.60}",
            expected=type_name,
            found=repr(value),
            about=(table.name,),
        )


def deleted_keys(statement: DeleteRows, table: CreateTable) -> list[tuple[KeyPart, ...]]:
    """The keys that a DELETE names, each once, the parts in the order of the table's key.

    Raises:
        StatementError: its condition does not name keys.
    """
    return list(dict.fromkeys(_keys(statement.where, table)))


def _keys(where: Predicate, table: CreateTable) -> list[tuple[KeyPart, ...]]:
    if isinstance(where, Or):
        return [key for part in where.parts for key in _keys(part, table)]
    options: dict[str, tuple[Any, ...]] = {}
    for part in where.parts if isinstance(where, And) else (where,):
        match part:
            case Compare(column, "=", value):
                named: tuple[str, tuple[Any, ...]] = column, (value,)
            case In(column, values):
                named = column, values
            case _:
                named = "", ()
        if named[0] not in table.key or named[0] in options:
            break
        options[named[0]] = named[1]
    else:
        if len(options) == len(table.key):
            for column, values in options.items():
                for value in values:
                    _check_value(table, column, value)
            keys = [options[column] for column in table.key]
            if _size(keys) > MOST_KEYS:
                raise StatementError(f"a DELETE names at most {MOST_KEYS:,} keys, found {_size(keys):,}")
            return list(product(*keys))
    wanted, listed = " AND ".join(f"{column} = …" for column in table.key), ", ".join(table.key)
    raise StatementError(
        f"expected a condition that names keys of {table.name}: {wanted}, or IN (…)",
        expected=wanted,
        hint=f"for rows by other columns, select their keys first: SELECT {listed} FROM {table.name} WHERE …",
        about=("WHERE",),
    )


def _size(options: list[tuple[Any, ...]]) -> int:
    size = 1
    for values in options:
        size *= len(values)
    return size
