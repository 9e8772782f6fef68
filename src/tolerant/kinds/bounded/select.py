"""`SUM/AVG/MIN/MAX/COUNT` over a stream, `WITHIN b`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from tolerant.kinds.bounded.weight_tables import check_weight
from tolerant.queries import UNIT_WEIGHT_FUNCTIONS
from tolerant.sql.errors import StatementError
from tolerant.sql.key_conditions import check_sharding, check_where
from tolerant.sql.predicates import And, Predicate, columns
from tolerant.sql.shape import Aggregated, ColumnRef, Shape, allow_clauses, sides
from tolerant.sql.statements import FUNCTIONS, AggregateSelect, CreateQuery, Function, Weight
from tolerant.sql.tolerances import ASK_FOR_WITHIN, check_within, over_table
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def recognise(shape: Shape) -> AggregateSelect | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
    if not shape.aggregates or any(aggregate.fn not in FUNCTIONS for aggregate in shape.aggregates):
        return None
    allow_clauses(shape, ("within", "fidelity", "otherwise"), "an aggregate")
    aggregate = _only_aggregate(shape)
    if shape.clauses.within is None:
        error = StatementError(
            "expected WITHIN and a number, found the end of the query",
            expected="WITHIN and a number",
            found="the end of the query",
            hint=ASK_FOR_WITHIN,
            span=shape.end,
        )
        plain = not shape.where and not shape.columns and not shape.group_by and aggregate.factor == 1.0
        error.over_table = shape.relations[0], *over_table(plain and len(aggregate.columns) < 2)
        raise error
    column, weight = _arguments(shape, aggregate)
    for grouped in (*shape.columns, *shape.group_by):
        _of_stream(shape, grouped)
    return AggregateSelect(
        stream=shape.relations[0],
        fn=cast(Function, aggregate.fn),
        where=_where(shape),
        group_by=_group_by(shape),
        factor=aggregate.factor,
        weight=weight,
        within=shape.clauses.within,
        fidelity=1.0 if shape.clauses.fidelity is None else shape.clauses.fidelity,
        otherwise=shape.clauses.otherwise or "widen",
        column=column,
    )


def _only_aggregate(shape: Shape) -> Aggregated:
    if len(shape.aggregates) > 1:
        raise StatementError(
            f"expected one aggregate, found {len(shape.aggregates)}",
            expected="one aggregate",
            found=f"{len(shape.aggregates)}",
            span=shape.aggregates[1].span,
            hint="one query has one answer: make a query of each",
        )
    if shape.star or shape.distinct:
        what = "*" if shape.star else "DISTINCT"
        raise StatementError(f"expected an aggregate alone, found {what} beside it", found=what, span=shape.start)
    if shape.bands:
        raise StatementError(
            "a table of weights is joined by equality of key columns", span=shape.bands[0].minuend.span
        )
    return shape.aggregates[0]


def _group_by(shape: Shape) -> tuple[str, ...]:
    names = tuple(column.name for column in shape.group_by)
    for i, column in enumerate(shape.group_by):
        if column.name in names[:i]:
            raise StatementError(
                f"column {column.name} is named twice in GROUP BY", found=column.name, span=column.span
            )
    for column in shape.columns:
        if column.name not in names:
            raise StatementError(
                f"expected an aggregate or a column of GROUP BY, found {column.name}",
                expected="an aggregate or a column of GROUP BY",
                found=column.name,
                span=column.span,
                hint=f"add GROUP BY {column.name}, or leave the column out",
            )
    return names


def _of_stream(shape: Shape, column: ColumnRef) -> None:
    if column.relation not in (None, shape.relations[0]):
        raise StatementError(
            f"expected a column of {shape.relations[0]}, found {column.relation}.{column.name}",
            expected=f"a column of {shape.relations[0]}",
            found=f"{column.relation}.{column.name}",
            span=column.span,
        )


def _where(shape: Shape) -> Predicate | None:
    for condition in shape.where:
        for relation in condition.relations:
            _of_stream(shape, ColumnRef(relation, next(columns(condition.predicate)), condition.span))
    parts = tuple(condition.predicate for condition in shape.where)
    return None if not parts else parts[0] if len(parts) == 1 else And(parts)


def _arguments(shape: Shape, aggregate: Aggregated) -> tuple[str | None, Weight | None]:
    """The value's column and the weight that an aggregate names."""
    if len(shape.relations) == 1:
        if len(aggregate.columns) > 1:
            raise StatementError(
                "expected the stream's value, at most times a number; found a product of columns",
                expected="the stream's value, at most times a number",
                found="a product of columns",
                span=aggregate.columns[1].span,
                hint="a weight is a joined table's: SELECT SUM(t.rate * w.weight) FROM traffic t JOIN weights w ON …",
            )
        return (aggregate.columns[0].name if aggregate.columns else None), None
    stream, table = shape.relations
    value, weight = _value_and_weight(shape, aggregate)
    on = tuple(sides(shape, equality.left, equality.right) for equality in shape.equalities)
    if not on:
        raise StatementError(
            f"expected a condition that joins {stream} with {table}",
            expected=f"ON {stream}.… = {table}.…",
            found="no condition",
            span=aggregate.span,
        )
    return value, Weight(table, weight, on)


def _value_and_weight(shape: Shape, aggregate: Aggregated) -> tuple[str, str]:
    stream, table = shape.relations
    example = f"{aggregate.fn.upper()}({stream}.… * {table}.…)"
    if len(aggregate.columns) != 2:
        raise StatementError(
            f"expected the stream's value times a weight, {example}",
            expected=example,
            found=f"{len(aggregate.columns)} columns",
            span=aggregate.span,
            hint=f"a table is joined for its weights; leave {table} out if there are none",
        )
    first, second = aggregate.columns
    if first.relation is None and second.relation is not None:
        first = ColumnRef(table if second.relation == stream else stream, first.name, first.span)
    elif second.relation is None and first.relation is not None:
        second = ColumnRef(table if first.relation == stream else stream, second.name, second.span)
    return sides(shape, first, second)


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    select = AggregateSelect.of(query)
    stream = catalogue.stream_of(select)
    _check_numbers(select)
    _check_value(select, stream)
    check_where(select.where, stream)
    for column in select.group_by:
        if column not in stream.key:
            raise StatementError(
                f"GROUP BY takes key columns of {stream.name} ({', '.join(stream.key)}), found {column}",
                expected=f"one of {', '.join(stream.key)}",
                found=column,
                about=("GROUP BY", column),
            )
    if select.weight is not None:
        check_weight(select, select.weight, stream, catalogue)
    check_sharding(select, stream)


def _check_numbers(select: AggregateSelect) -> None:
    check_within(select.within)
    if not 0 < select.fidelity <= 1:
        raise StatementError(f"a fidelity is above 0 and at most 1, found {select.fidelity}", about=("FIDELITY",))
    if not math.isfinite(select.factor) or select.factor == 0:
        raise StatementError(f"a factor is finite and not 0, found {select.factor}", about=("SELECT",))


def _check_value(select: AggregateSelect, stream: Stream) -> None:
    starred = select.column is None and select.fn == "count"
    if not starred and select.column not in (None, stream.value):
        known = select.column in stream.key
        raise StatementError(
            f"expected {stream.value}, the value of {stream.name}, found {select.column}"
            + (", a key column" if known else f": {stream.name} has no such column"),
            expected=stream.value,
            found=str(select.column),
            about=("SELECT", str(select.column)),
        )
    if select.fn in UNIT_WEIGHT_FUNCTIONS and (select.factor != 1.0 or select.weight is not None):
        what = "factor" if select.weight is None else "weight"
        raise StatementError(
            f"{select.fn.upper()} takes the value as it is, found a {what}",
            expected=f"{select.fn.upper()}({stream.value})",
            found=f"a {what}",
            hint="SUM and AVG take factors and weights",
            about=("SELECT", select.fn),
        )
