"""Statement text → typed statements. `tolerant.sql.parse` and `parse_many` are the doors to this module."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from sqlglot import Token

from tolerant.sql.catalogue import Catalogue
from tolerant.sql.clauses import peel, take_options, take_within
from tolerant.sql.cursor import Cursor
from tolerant.sql.definitions import check_stream, check_table
from tolerant.sql.errors import StatementError, expected, position
from tolerant.sql.limits import LONGEST_TEXT
from tolerant.sql.local_statements import check_local, read_delete, read_insert, read_select_rows, read_show
from tolerant.sql.options import NAMES, TABLE_NAMES, read_option
from tolerant.sql.query_kind import recognise
from tolerant.sql.shape_reader import outline
from tolerant.sql.sqlglot_log import silent_sqlglot
from tolerant.sql.statements import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    Drop,
    LocalStatement,
    Statement,
    Subscribe,
    Unsubscribe,
)
from tolerant.sql.tokens import source, span, statements, tokenise
from tolerant.sql.types import canonical_type
from tolerant.streams import Column, KeyPart, Stream, StreamOptions, TableOptions

_BEGINNINGS = "CREATE, ALTER, DROP, SHOW, SUBSCRIBE, UNSUBSCRIBE, INSERT, DELETE or SELECT"


def parse(text: str, catalogue: Catalogue | None = None) -> Statement:
    """See `tolerant.sql.parse`."""
    statements = parse_many(text, catalogue)
    if not statements:
        end = len(text.rstrip())
        raise expected("a statement", "nothing").located(text, (end, end + 1))
    if len(statements) > 1:
        offset = _offset(text, statements[1].line, statements[1].column)
        raise expected("one statement", f"{len(statements)}").located(text, (offset, offset + 1))
    return statements[0]


@silent_sqlglot()
def parse_many(text: str, catalogue: Catalogue | None = None) -> list[Statement]:
    """See `tolerant.sql.parse_many`."""
    known = None if catalogue is None else catalogue.copy()
    parsed: list[Statement] = []
    tokens: list[Token] = []
    try:
        for tokens in statements(text, tokenise(text)):
            _check_length(tokens)
            statement = _placed(text, tokens, _statement(Cursor(text, tokens)))
            if known is not None and isinstance(statement, LocalStatement):
                check_local(statement, known, tokens[0].start)
            elif known is not None:
                known.check(statement)
                known.record(statement)
            parsed.append(statement)
    except StatementError as error:
        error = error if known is None else known.advised(error)
        raise error.located(text, error.span or _whereabouts(text, tokens, error.about)) from None
    return parsed


def _check_length(tokens: list[Token]) -> None:
    length = tokens[-1].end + 1 - tokens[0].start
    if length > LONGEST_TEXT:
        what = f"a statement of at most {LONGEST_TEXT:,} characters"
        raise StatementError(f"expected {what}, found {length:,}", expected=what, found=f"{length:,}")


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(written) + 1 for written in text.split("\n")[: line - 1]) + column - 1


def _placed(text: str, tokens: list[Token], statement: Statement) -> Statement:
    line, column = position(text, tokens[0].start)
    return replace(statement, text=text[tokens[0].start : tokens[-1].end + 1], line=line, column=column)


def _whereabouts(text: str, tokens: list[Token], words: tuple[str, ...]) -> tuple[int, int]:
    """Where an error that says only which words lead to it must be: each word stands behind the one before."""
    if not tokens:
        return 0, 1
    place, start = span(tokens[0]), 0
    for word in words:
        for i in range(start, len(tokens)):
            if word in (tokens[i].text, source(text, tokens[i])) or source(text, tokens[i]).upper() == word.upper():
                place, start = span(tokens[i]), i + 1
                break
    return place


def _statement(cursor: Cursor) -> Statement:
    beginning = cursor.word()
    match beginning:
        case "CREATE":
            cursor.index += 1
            what = cursor.take_word("STREAM", "TABLE", "QUERY")
            unless = _if_not_exists(cursor)
            created = _query(cursor) if what == "QUERY" else _relation(cursor, what)
            return replace(created, if_not_exists=unless)
        case "ALTER":
            return _alter(cursor)
        case "DROP":
            cursor.index += 1
            dropped = cursor.take_word("QUERY", "STREAM", "TABLE").lower()
            name = cursor.take_relation(f"the name of a {dropped}")
            cursor.end("';'")
            return Drop(cast(Literal["query", "stream", "table"], dropped), name)
        case "SHOW":
            return read_show(cursor)
        case "SUBSCRIBE" | "UNSUBSCRIBE":
            return _subscription(cursor)
        case "INSERT":
            return read_insert(cursor)
        case "DELETE":
            return read_delete(cursor)
        case "SELECT":
            return read_select_rows(cursor)
        case _:
            raise cursor.fail(_BEGINNINGS)


def _if_not_exists(cursor: Cursor) -> bool:
    words = [source(cursor.text, token).upper() for token in cursor.rest()[:3]]
    if words[:2] != ["IF", "NOT"]:  # else a name that is a keyword
        return False
    cursor.index += 2
    cursor.take_word("EXISTS")
    return True


def _alter(cursor: Cursor) -> AlterQuery:
    cursor.index += 1
    cursor.take_word("QUERY")
    name = cursor.take_relation("the name of a query")
    cursor.take_word("WITHIN")
    within = take_within(cursor)
    cursor.end("';'")
    return AlterQuery(name, within)


def _subscription(cursor: Cursor) -> Subscribe | Unsubscribe:
    made = Subscribe if cursor.take_word("SUBSCRIBE", "UNSUBSCRIBE") == "SUBSCRIBE" else Unsubscribe
    name = cursor.take_relation("the name of a query")
    if cursor.skip_word("FROM"):
        uri = cursor.take_string("the URI of a table in quotes")
        cursor.end("';'")
        return made(name, (), uri)
    if not cursor.at_symbol("("):
        raise cursor.fail("'(' and values, or FROM and a URI")
    cursor.index += 1
    values: list[KeyPart] = []
    if cursor.at_symbol(")"):
        cursor.index += 1
    else:
        values.append(cursor.take_constant())
        while cursor.take_symbol(",", ")") == ",":
            values.append(cursor.take_constant())
    cursor.end("';'")
    return made(name, tuple(values))


def _relation(cursor: Cursor, what: str) -> CreateStream | CreateTable:
    name = cursor.take_relation(f"a name for the {what.lower()}")
    columns = _columns(cursor)
    cursor.take_word("KEY")
    key = tuple(column for column, _ in cursor.take_list("a key column"))
    uri = cursor.take_string("a URI in quotes after FROM") if cursor.skip_word("FROM") else None
    given = _options(cursor, TABLE_NAMES if what == "TABLE" else NAMES) if cursor.skip_word("WITH") else {}
    cursor.end("FROM, WITH or ';'" if uri is None else "WITH or ';'")
    if what == "TABLE":
        table = CreateTable(name, columns, key, uri, TableOptions(**given))
        check_table(table)
        return table
    stream = Stream(name, columns, key, uri, StreamOptions(**given))
    check_stream(stream)
    return CreateStream(stream)


def _columns(cursor: Cursor) -> tuple[Column, ...]:
    cursor.take_symbol("(")
    columns: list[Column] = []
    while True:
        name = cursor.take_name("the name of a column")
        columns.append(Column(name, _type(cursor)))
        if cursor.take_symbol(",", ")") == ")":
            return tuple(columns)


def _type(cursor: Cursor) -> str:
    place = cursor.here()
    written = cursor.take_name("a type")
    try:
        canonical = canonical_type(written)
    except StatementError as error:
        error.span = place
        raise
    if written.upper() in ("VARCHAR", "CHAR") and cursor.at_symbol("("):
        cursor.index += 1
        cursor.take_number("a length")
        cursor.take_symbol(")")
    return canonical


def _options(cursor: Cursor, names: tuple[str, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in take_options(cursor):
        if option.name not in names:
            raise StatementError(
                f"there is no option {option.name}",
                expected=f"one of {', '.join(names)}",
                found=option.name,
                span=option.place,
                hint=f"the options are {', '.join(names)}",
            )
        try:
            field, value = read_option(option.name, option.value)
        except StatementError as error:
            error.span = error.span or option.value_place
            raise
        given[field] = value
    return given


def _query(cursor: Cursor) -> CreateQuery:
    name = cursor.take_relation("a name for the query")
    parameters: tuple[str, ...] = ()
    if cursor.at_symbol("("):
        listed = cursor.take_list("a parameter")
        parameters = tuple(parameter for parameter, _ in listed)
        for i, (parameter, place) in enumerate(listed):
            if parameter in parameters[:i]:
                raise StatementError(f"parameter {parameter} is named twice", found=parameter, span=place)
    cursor.take_word("AS")
    if cursor.word() not in ("SELECT", "WITH") and not cursor.at_symbol("("):
        raise cursor.fail("SELECT")
    end = cursor.tokens[-1].end + 1
    tokens, clauses = peel(cursor.text, cursor.rest())
    shape = outline(cursor.text, tokens, clauses, parameters)
    return CreateQuery(name, parameters, recognise(replace(shape, end=(end, end + 1))))
