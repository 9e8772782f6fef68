"""The items that a query names: a stream that is polled has no others, since somebody has to know what to ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import And, Between, Compare, In, Or, Predicate, matches
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import KeyPart, Stream, key_text

MOST_ITEMS = 100_000
"""Items that one query may name."""

_WHOLE = ("INT", "BIGINT")


def named_items(select: AggregateSelect, stream: Stream) -> list[str]:
    """The keys, as text, of the items that a query names: by its WHERE, by its table of weights, or by both.

    Raises:
        StatementError: its conditions do not say which items there are, or name none.
    """
    free = stream.key if select.weight is None else _not_joined(select, stream)
    chosen = {column: _options(select.where, column, stream) for column in free}
    for column, options in chosen.items():
        if options is None:
            raise StatementError(
                f"a query over {stream.name}, which is polled, must name its items: "
                f"expected {column} = … or {column} IN (…)",
                expected=f"{column} = … or {column} IN (…)",
                hint="or join a table of weights: its rows name the items",
                about=("FROM", stream.name),
            )
    found = [row for row in _rows(select, stream, chosen) if matches(select.where, row)]
    if not found and not (select.weight is not None and select.weight.values is None):
        raise StatementError(f"the query names no item of {stream.name}", about=("FROM", stream.name))
    return list(dict.fromkeys(key_text(tuple(row[column] for column in stream.key)) for row in found))


def _not_joined(select: AggregateSelect, stream: Stream) -> tuple[str, ...]:
    joined = {column for column, _ in select.weight.on} if select.weight else set()
    return tuple(column for column in stream.key if column not in joined)


def _rows(select: AggregateSelect, stream: Stream, chosen: dict[str, list[KeyPart] | None]) -> list[dict[str, KeyPart]]:
    """Every combination of what the columns may be."""
    weight = select.weight
    joined: Sequence[dict[str, KeyPart]] = [{}]
    if weight is not None:
        columns = [column for column, _ in weight.on]
        joined = [dict(zip(columns, key, strict=True)) for key, _ in weight.values or ()]
    size = len(joined)
    for options in chosen.values():
        size *= len(options or ())
    if size > MOST_ITEMS:
        raise StatementError(f"a query names at most {MOST_ITEMS:,} items, found {size:,}")
    own = [dict(zip(chosen, parts, strict=True)) for parts in product(*(options or () for options in chosen.values()))]
    return [one | other for one in joined for other in own]


def _options(where: Predicate | None, column: str, stream: Stream) -> list[KeyPart] | None:
    """What a column can be where the condition holds; None: anything, as far as the condition tells."""
    match where:
        case Compare(name, "=", value) if name == column:
            return [value]  # type: ignore[list-item]
        case In(name, values) if name == column:
            return list(dict.fromkeys(values))  # type: ignore[arg-type]
        case Between(name, int(low), int(high)) if name == column and _type(column, stream) in _WHOLE:
            return list(range(low, min(high, low + MOST_ITEMS) + 1))
        case And(parts):
            known = [found for part in parts if (found := _options(part, column, stream)) is not None]
            return min(known, key=len, default=None)
        case Or(parts):
            each = [_options(part, column, stream) for part in parts]
            if any(found is None for found in each):
                return None
            return list(dict.fromkeys(value for found in each for value in found or ()))
    return None


def _type(column: str, stream: Stream) -> str:
    return stream.key_types[stream.key.index(column)]
