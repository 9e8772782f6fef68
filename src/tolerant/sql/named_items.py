"""The items that a query names: a stream that is polled has no others, since somebody has to know what to ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, product

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import And, Between, Compare, In, Or, Predicate, leaves
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import KeyPart, Stream, key_text

MOST_ITEMS = 100_000
"""Items that one query may name."""

_MOST_WORK = 100_000_000  # comparisons with items, all in all
_WHOLE = ("INT", "BIGINT")


def named_items(select: AggregateSelect, stream: Stream) -> list[str]:
    """The keys, as text, of the items that a query names: by its WHERE, by its table of weights, or by both.

    Raises:
        StatementError: its conditions do not say which items there are, or name none.
    """
    return list(dict.fromkeys(map(key_text, named_keys(select, stream))))


def named_keys(select: AggregateSelect, stream: Stream) -> list[tuple[KeyPart, ...]]:
    """The keys of the items that a query names, some perhaps more than once.

    Raises:
        StatementError: its conditions do not say which items there are, or name none.
    """
    from tolerant.sql.membership import Keys, matching  # it needs NumPy, which most statements do not

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
    candidates = _keys(select, stream, chosen)
    keys = list(compress(candidates, matching(select.where, Keys.of_parts(stream, candidates)).tolist()))
    if not keys and not (select.weight is not None and select.weight.values is None):
        raise StatementError(f"the query names no item of {stream.name}", about=("FROM", stream.name))
    return keys


def _not_joined(select: AggregateSelect, stream: Stream) -> tuple[str, ...]:
    joined = {column for column, _ in select.weight.on} if select.weight else set()
    return tuple(column for column in stream.key if column not in joined)


def _keys(
    select: AggregateSelect, stream: Stream, chosen: dict[str, Sequence[KeyPart] | None]
) -> list[tuple[KeyPart, ...]]:
    """Every combination of what the columns may be."""
    weight = select.weight
    joined: Sequence[tuple[KeyPart, ...]] = [()]
    columns: list[str] = []
    if weight is not None:
        columns = [column for column, _ in weight.on]
        joined = [key for key, _ in weight.values or ()]
    size = len(joined)
    for options in chosen.values():
        size *= len(options or ())
    _check_size(size, sum(1 for _ in leaves(select.where)))
    columns += chosen
    places = [columns.index(column) for column in stream.key]
    own = list(product(*(options or () for options in chosen.values())))
    whole = own if weight is None else [first + second for first in joined for second in own]
    return whole if list(stream.key) == columns else [tuple(key[place] for place in places) for key in whole]


def _check_size(items: int, comparisons: int) -> None:
    if items > MOST_ITEMS:
        raise StatementError(f"a query names at most {MOST_ITEMS:,} items, found {items:,}")
    if items * comparisons > _MOST_WORK:
        raise StatementError(f"{comparisons:,} comparisons are too many for {items:,} items; IN is one comparison")


def _options(where: Predicate | None, column: str, stream: Stream) -> Sequence[KeyPart] | None:
    """What a column can be where the condition holds; None: anything, as far as the condition tells."""
    match where:
        case Compare(name, "=", value) if name == column:
            return [value]  # type: ignore[list-item]
        case In(name, values) if name == column:
            return list(dict.fromkeys(values))  # type: ignore[arg-type]
        case Between(name, int(low), int(high)) if name == column and _type(column, stream) in _WHOLE:
            return range(low, min(high, low + MOST_ITEMS) + 1)
        case And(parts):
            known = [found for part in parts if (found := _options(part, column, stream)) is not None]
            return min(known, key=len, default=None)
        case Or(parts):
            each = [_options(part, column, stream) for part in parts]
            known = [found for found in each if found is not None]
            return _union(known) if len(known) == len(each) else None
    return None


def _union(choices: Sequence[Sequence[KeyPart]]) -> list[KeyPart]:
    """What is in any of them, once."""
    spans: list[range] = []
    for span in sorted((choice for choice in choices if isinstance(choice, range)), key=lambda span: span.start):
        if spans and span.start <= spans[-1].stop:
            spans[-1] = range(spans[-1].start, max(span.stop, spans[-1].stop))
        else:
            spans.append(span)
    _check_size(sum(map(len, spans)), 1)
    others = (choice for choice in choices if not isinstance(choice, range))
    return list(dict.fromkeys(value for part in (*spans, *others) for value in part))


def _type(column: str, stream: Stream) -> str:
    return stream.key_types[stream.key.index(column)]
