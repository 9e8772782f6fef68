"""What a bounded query's WHERE may say about a stream."""

from __future__ import annotations

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import (
    Between,
    Compare,
    In,
    Like,
    Parameter,
    Predicate,
    check_pattern,
    conjuncts,
    leaves,
    operands,
)
from tolerant.sql.statements import AggregateSelect
from tolerant.sql.types import comparable
from tolerant.streams import Stream


def check_where(where: Predicate | None, stream: Stream) -> None:
    """Raise StatementError unless every comparison is of a key column of the stream with constants of its type."""
    types = dict(zip(stream.key, stream.key_types, strict=True))
    for leaf in leaves(where):
        if leaf.column not in types:
            raise _wrong_column(leaf.column, stream)
        check_leaf(leaf, types[leaf.column])


def check_sharding(select: AggregateSelect, stream: Stream) -> None:
    """Raise StatementError if the query would need items of more than one shard for one answer."""
    shard = stream.options.shard
    if stream.options.shards == 1 or shard is None or shard in select.group_by:
        return
    for part in conjuncts(select.where):
        if isinstance(part, Compare) and part.column == shard and part.op == "=":
            return
    raise StatementError(
        f"stream {stream.name} is sharded by {shard}, and this query would span shards",
        expected=f"GROUP BY {shard}, or {shard} = a constant in WHERE",
        hint=f"add GROUP BY {shard}, or WHERE {shard} = … (with AND beside the other conditions)",
        about=("FROM", stream.name),
    )


def _wrong_column(column: str, stream: Stream) -> StatementError:
    keys = ", ".join(stream.key)
    if column == stream.value:
        return StatementError(
            f"WHERE takes key columns ({keys}); {column} is the value, and it changes",
            expected=f"a key column: {keys}",
            found=column,
            about=("WHERE", column),
            hint="which items count must not depend on values that are known only within a bound: an item near the "
            "limit could count or not, and no tolerance would cover it",
        )
    return StatementError(
        f"stream {stream.name} has no column {column}",
        expected=f"a key column: {keys}",
        found=column,
        about=("WHERE", column),
    )


def check_leaf(leaf: Compare | In | Between | Like, type_name: str) -> None:
    """Raise StatementError unless a comparison is one that a column of the type allows."""
    orders = isinstance(leaf, Between) or (isinstance(leaf, Compare) and leaf.op not in ("=", "<>"))
    if type_name == "BOOLEAN" and orders:
        raise StatementError(
            f"column {leaf.column} is BOOLEAN and has no order: compare it with = TRUE or = FALSE",
            expected="= TRUE or = FALSE",
            about=("WHERE", leaf.column),
        )
    if isinstance(leaf, Like):
        try:
            check_pattern(leaf.pattern, leaf.escape)
        except ValueError as error:
            raise StatementError(str(error), found=leaf.pattern, about=("WHERE", leaf.column)) from None
    for operand in operands(leaf):
        if isinstance(operand, Parameter):
            raise StatementError(f"{operand.name:.60} is no parameter of the query", about=("WHERE", operand.name))
        if not comparable(type_name, operand):
            raise StatementError(
                f"column {leaf.column} is {type_name}, and is compared with {operand!r}",
                expected=f"a constant of type {type_name}",
                found=repr(operand),
                about=("WHERE", leaf.column),
            )
