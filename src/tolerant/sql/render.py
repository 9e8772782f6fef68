"""Statements as SQL again, in one way each: `parse(render(statement)) == statement`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields

from tolerant.sql.durations import duration_text
from tolerant.sql.names import quoted
from tolerant.sql.predicates import (
    And,
    Between,
    Compare,
    In,
    Like,
    Not,
    Operand,
    Or,
    Parameter,
    Predicate,
    columns,
)
from tolerant.sql.statements import (
    AggregateSelect,
    AlterQuery,
    BandJoinSelect,
    CreateQuery,
    CreateStream,
    CreateTable,
    Creation,
    DeleteRows,
    Drop,
    EqualityJoinSelect,
    InsertRows,
    KeepJoinSelect,
    Range,
    RangeAggregateSelect,
    RangeSelect,
    Select,
    SelectRows,
    Sharing,
    Show,
    Statement,
    Stretch,
    Subscribe,
    Tally,
    Trigger,
    Unsubscribe,
    ViewSelect,
)
from tolerant.streams import Column, KeyPart, Limits, Stream, StreamOptions, TableOptions


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
            return f"{what} AS {select_text(select, parameters)}"
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


def select_text(select: Select, parameters: tuple[str, ...] = ()) -> str:
    """The select and its clauses; columns with the name of a parameter go behind their table's name."""
    match select:
        case AggregateSelect():
            return _aggregate(select, parameters)
        case RangeSelect(relation, ranges, sharing):
            where = " AND ".join(_range(part, _owner(relation, (part.column,), parameters)) for part in ranges)
            return f"SELECT * FROM {quoted(relation)} WHERE {where}{_sharing(sharing)}"
        case RangeAggregateSelect(relation, fn, column, where):
            owner = _owner(relation, (column, where.column), parameters)
            argument = "*" if column is None else (f"{quoted(owner)}." if owner else "") + quoted(column)
            what = f"DISTINCT {argument}" if fn == "distinct" else f"{fn.upper()}({argument})"
            return f"SELECT {what} FROM {quoted(relation)} WHERE {_range(where, owner)}"
        case EqualityJoinSelect():
            ranges_text = f"{_range(select.left_range, select.left)} AND {_range(select.right_range, select.right)}"
            return f"{_equality_join(select)} WHERE {ranges_text}{_shards(select.shards)}"
        case KeepJoinSelect():
            return f"{_equality_join(select)} KEEP {select.rows} ROWS{_shards(select.shards)}"
        case BandJoinSelect(left, right, (one, other), low, high, shards, stretch):
            difference = f"{quoted(right)}.{quoted(other)} - {quoted(left)}.{quoted(one)}"
            between = f"{difference} BETWEEN {_operand(low)} AND {_operand(high)}"
            return f"SELECT * FROM {quoted(left)} JOIN {quoted(right)} ON {between}{_shards(shards, stretch)}"
        case ViewSelect(sql, _, refresh, when):
            suffix = "" if when is None else f" WHEN {trigger_text(when)}"
            return f"{sql} REFRESH WITHIN '{duration_text(refresh)}'{suffix}"


def _shards(shards: int, stretch: Stretch | None = None) -> str:
    given = [f"shards = {shards}"] if shards != 1 else []
    if stretch is not None:
        given += [f"{field.name} = {number(getattr(stretch, field.name))}" for field in fields(Stretch)]
    return f" WITH ({', '.join(given)})" if given else ""


def trigger_text(trigger: Trigger) -> str:
    """The condition of a view as SQL."""
    tallies = [_tally(tally) for tally in trigger.tallies]
    return predicate_text(trigger.condition, named=lambda name: tallies[int(name)])


def _tally(tally: Tally) -> str:
    what = "*" if tally.column is None else quoted(tally.column)
    where = "" if tally.where is None else f" WHERE {predicate_text(tally.where)}"
    return f"(SELECT {tally.fn.upper()}({what}) FROM {quoted(tally.table)}{where})"


def predicate_text(predicate: Predicate, qualifier: str = "", named: Callable[[str], str] = quoted) -> str:
    """The predicate as SQL; `qualifier` goes before each column, which `named` makes SQL of."""

    def nested(part: Predicate) -> str:
        text = predicate_text(part, qualifier, named)
        chained = isinstance(part, Not) and isinstance(predicate, Not)  # parentheses would nest without end
        return f"({text})" if isinstance(part, And | Or | Not) and not chained else text

    match predicate:
        case And(parts):
            return " AND ".join(map(nested, parts))
        case Or(parts):
            return " OR ".join(map(nested, parts))
        case Not(part):
            return f"NOT {nested(part)}"
    column = f"{qualifier}{named(predicate.column)}"
    match predicate:
        case Compare(_, op, value):
            return f"{column} {op} {_operand(value)}"
        case In(_, values):
            return f"{column} IN ({', '.join(map(_operand, values))})"
        case Between(_, low, high):
            return f"{column} BETWEEN {_operand(low)} AND {_operand(high)}"
        case Like(_, pattern, escape):
            suffix = "" if escape == "\\" else f" ESCAPE {constant(escape)}"
            return f"{column} LIKE {constant(pattern)}{suffix}"


def constant(value: KeyPart) -> str:
    r"""A constant as SQL.

    >>> constant("it's"), constant(5.0), constant(-7), constant(True), constant(float("-inf"))
    ("'it\\'s'", '5.0', '-7', 'TRUE', '-INFINITY')
    """
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


def number(value: float) -> str:
    """A number that is a float wherever it is read, so that whole ones need no point.

    >>> number(5.0), number(0.25), number(1e300)
    ('5', '0.25', '1e+300')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _operand(operand: Operand) -> str:
    return quoted(operand.name) if isinstance(operand, Parameter) else constant(operand)


def _owner(relation: str, columns: Iterable[str | None], parameters: tuple[str, ...]) -> str:
    """What has to stand before columns lest they be taken for parameters: the relation, or nothing."""
    return relation if not set(parameters).isdisjoint(columns) else ""


def _range(where: Range, relation: str = "") -> str:
    qualifier = f"{quoted(relation)}." if relation else ""
    return predicate_text(Between(where.column, where.low, where.high), qualifier)


def _equality_join(select: EqualityJoinSelect | KeepJoinSelect) -> str:
    left, right, (one, other) = quoted(select.left), quoted(select.right), select.on
    return f"SELECT * FROM {left} JOIN {right} ON {left}.{quoted(one)} = {right}.{quoted(other)}"


def _aggregate(select: AggregateSelect, parameters: tuple[str, ...]) -> str:
    stream = quoted(select.stream)
    named = (select.column, *select.group_by, *columns(select.where))
    qualifier = f"{stream}." if select.weight or _owner(stream, named, parameters) else ""
    argument = "*" if select.column is None else qualifier + quoted(select.column)
    if select.weight:
        argument += f" * {quoted(select.weight.table)}.{quoted(select.weight.column)}"
    scale = f"{number(select.factor)} * " if select.factor != 1.0 else ""
    aggregated = f"{select.fn.upper()}({scale}{argument})" if argument != "*" else f"{scale}{select.fn.upper()}(*)"
    groups = [qualifier + quoted(column) for column in select.group_by]
    parts = [f"SELECT {', '.join([*groups, aggregated])} FROM {stream}"]
    if select.weight:
        table = quoted(select.weight.table)
        pairs = (f"{stream}.{quoted(one)} = {table}.{quoted(other)}" for one, other in select.weight.on)
        parts.append(f"JOIN {table} ON {' AND '.join(pairs)}")
    if select.where is not None:
        parts.append(f"WHERE {predicate_text(select.where, qualifier)}")
    if groups:
        parts.append(f"GROUP BY {', '.join(groups)}")
    parts.append(f"WITHIN {number(select.within)}")
    if select.fidelity != 1.0:
        parts.append(f"FIDELITY {number(select.fidelity)}")
    if select.otherwise != "widen":
        parts.append(f"OTHERWISE {select.otherwise.upper()}")
    return " ".join(parts)


def _definition(what: str, name: str, columns: tuple[Column, ...], key: tuple[str, ...], uri: str | None) -> str:
    listed = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
    source = "" if uri is None else f" FROM {constant(uri)}"
    return f"CREATE {what} {quoted(name)} ({listed}) KEY ({', '.join(map(quoted, key))}){source}"


def _sharing(sharing: Sharing) -> str:
    """The options that are not the default; none: nothing."""
    given = []
    for field in fields(Sharing):
        value = getattr(sharing, field.name)
        if value != field.default:
            given.append(f"{field.name} = {number(value) if isinstance(value, float) else constant(value)}")
    return f" WITH ({', '.join(given)})" if given else ""


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
