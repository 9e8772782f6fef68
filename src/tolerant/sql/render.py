"""Statements as SQL again, in one way each: `parse(render(statement)) == statement`."""

from __future__ import annotations

from dataclasses import fields

from tolerant.sql.durations import duration_text
from tolerant.sql.names import quoted
from tolerant.sql.sql_text import constant, number, predicate_text
from tolerant.sql.statements import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    Creation,
    DeleteRows,
    Drop,
    InsertRows,
    SelectRows,
    Show,
    Statement,
    Subscribe,
    Unsubscribe,
)
from tolerant.streams import Column, Limits, Stream, StreamOptions, TableOptions


def render(statement: Statement) -> str:
    """The statement as one line of SQL, keywords in capitals, without the closing semicolon.

    >>> from tolerant.sql import parse
    >>> render(parse("create query load as select avg( rate ) from traffic where kind='in' within 5.0"))
    "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WHERE kind = 'in' WITHIN 5"
    """
    match statement:
        case CreateStream(stream):
            what = f"STREAM{_unless(statement)}"
            return _definition(what, stream.name, stream.columns, stream.key, stream.uri) + _options(stream)
        case CreateTable(name, columns, key, uri, options):
            return _definition(f"TABLE{_unless(statement)}", name, columns, key, uri) + _table_options(options)
        case CreateQuery(name, parameters, select):
            arguments = f"({', '.join(map(quoted, parameters))})" if parameters else ""
            what = f"CREATE QUERY{_unless(statement)} {quoted(name)}{arguments}"
            return f"{what} AS {select.text(parameters)}"
        case AlterQuery(name, within):
            return f"ALTER QUERY {quoted(name)} WITHIN {number(within)}"
        case Drop(what, name):
            return f"DROP {what.upper()} {quoted(name)}"
        case Subscribe(name, values, uri) | Unsubscribe(name, values, uri):
            given = f" FROM {constant(uri)}" if uri is not None else f"({', '.join(map(constant, values))})"
            return f"{statement.kind.upper()} {quoted(name)}{given}"
        case Show(what, name, limit, offset):
            return f"SHOW {what.upper()}{_page(name, limit, offset)}"
        case InsertRows(name, columns, rows):
            listed = f" ({', '.join(map(quoted, columns))})" if columns else ""
            given = ", ".join(f"({', '.join(map(constant, row))})" for row in rows)
            return f"INSERT INTO {quoted(name)}{listed} VALUES {given}"
        case DeleteRows(name, where):
            return f"DELETE FROM {quoted(name)} WHERE {predicate_text(where)}"
        case SelectRows(sql=sql):
            return sql
        case _:
            raise ValueError(f"not a statement: {statement!r}")


def _unless(statement: Creation) -> str:
    return " IF NOT EXISTS" if statement.if_not_exists else ""


def _page(name: str, limit: int | None, offset: int) -> str:
    to = f" TO {quoted(name)}" if name else ""
    return to + (f" LIMIT {limit}" if limit is not None else "") + (f" OFFSET {offset}" if offset else "")


def _definition(what: str, name: str, columns: tuple[Column, ...], key: tuple[str, ...], uri: str | None) -> str:
    listed = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
    source = "" if uri is None else f" FROM {constant(uri)}"
    return f"CREATE {what} {quoted(name)} ({listed}) KEY ({', '.join(map(quoted, key))}){source}"


def _options(stream: Stream) -> str:
    """The options that are not the default; none: nothing."""
    options, usual = stream.options, StreamOptions()
    texts = {
        "tick": constant(duration_text(options.tick)),
        "period": str(options.period),
        "latency": constant(duration_text(options.latency)),
        "latency_percentile": constant(_percentile(options.latency_percentile)),
        "lease": constant(duration_text(options.lease)),
        "shrink": number(options.shrink),
        "policy": constant(options.policy),
        "shards": str(options.shards),
        "shard": "" if options.shard is None else quoted(options.shard),
        "retention": constant(duration_text(options.retention)),
        "path": constant(options.path),
        "batch": str(options.batch),
        "at_once": str(options.at_once),
        "per_second": number(options.per_second),
        "timeout": constant(duration_text(options.timeout)),
        "max_interval": str(options.max_interval),
        "chooser": constant(options.chooser),
        **{f"max_{field.name}": str(getattr(options.limits, field.name)) for field in fields(Limits)},
        "stale_after": constant(duration_text(options.stale_after)),
        "redirects": constant(options.redirects),
        "credentials": constant(options.credentials),
    }
    given = [
        f"{name.removesuffix('_percentile')} = {text}"
        for name, text in texts.items()
        if getattr(options, name) != getattr(usual, name)
    ]
    return f" WITH ({', '.join(given)})" if given else ""


def _table_options(options: TableOptions) -> str:
    """The options that are not the default; none: nothing."""
    values = ((field, getattr(options, field.name)) for field in fields(TableOptions))
    given = [f"{field.name} = {value}" for field, value in values if value != field.default]
    return f" WITH ({', '.join(given)})" if given else ""


def _percentile(value: float) -> str:
    """With two digits before the point: 'p05', 'p99.9'."""
    whole, point, rest = f"{value:g}".partition(".")
    return f"p{whole:0>2}{point}{rest}"
