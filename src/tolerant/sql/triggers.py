"""`WHEN condition` of a view: comparisons of aggregates over its tables with constants, AND, OR and NOT.

A condition is on the tables and not on the view: a view is not up to date, and to know what it says it would have to be
brought up to date at every change. COUNT, SUM and AVG over one table can be kept as its rows come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from sqlglot import Dialect, Token, exp
from sqlglot.errors import ParseError

from tolerant.sql.conditions import Conditions
from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import And, Like, Predicate, columns, leaves, operands
from tolerant.sql.scope import Scope, place
from tolerant.sql.select import Tally, Trigger
from tolerant.sql.shape import Clauses, Shape
from tolerant.sql.shape_reader import shape_of, unreadable
from tolerant.sql.statements import CreateTable
from tolerant.sql.tokens import span
from tolerant.sql.types import NUMERIC, comparable

_TALLY = "an aggregate over a table of the view in parentheses, (SELECT COUNT(*) FROM … WHERE …)"
_HINT = "a condition looks like (SELECT COUNT(*) FROM orders WHERE amount > 100) > 10"
_EXTREME = "(SELECT MAX(x) FROM t) > 5 is (SELECT COUNT(*) FROM t WHERE x > 5) > 0"


def read_trigger(text: str, tokens: list[Token]) -> Trigger:
    """The condition that the tokens say; `text` is what their offsets are in.

    Raises:
        StatementError: it is none.
    """
    try:
        trees = Dialect.get_or_raise("spark").parser().parse_into(exp.Condition, tokens, text)
        tree = trees[0] if len(trees) == 1 else None
        if tree is None:
            raise StatementError("expected a condition after WHEN", span=span(tokens[0]), hint=_HINT)
        return _Reading(text, span(tokens[0])).trigger(tree)
    except StatementError:
        raise
    except RecursionError:
        raise StatementError("the condition is nested too deeply", span=span(tokens[0])) from None
    except ParseError as error:
        raise unreadable(text, tokens, error) from None
    except Exception as error:
        # As for selects: what sqlglot makes of odd input must never bring the reader down.
        raise StatementError(f"the condition cannot be read: {error!s:.200}", span=span(tokens[0])) from None


class _Reading:
    def __init__(self, text: str, start: tuple[int, int]) -> None:
        self._text, self._start = text, start
        self._tallies: dict[Tally, int] = {}  # each with its place

    def trigger(self, tree: exp.Expr) -> Trigger:
        scope = Scope(self._text, {"": ""}, ())
        self._refuse_columns(scope, tree)
        holder = exp.Paren(this=tree)
        for inner in list(holder.find_all(exp.Subquery)):
            inner.replace(self._column(inner))
        conditions = Conditions(scope)
        conditions.add(holder)
        parts = tuple(condition.predicate for condition in conditions.where)
        if not self._tallies or not parts:
            raise StatementError(f"expected {_TALLY}", expected=_TALLY, span=self._start, hint=_HINT)
        return Trigger(tuple(self._tallies), And(parts) if len(parts) > 1 else parts[0])

    def _refuse_columns(self, scope: Scope, tree: exp.Expr) -> None:
        """A condition on the view's own columns is what people may try first."""
        for node in tree.walk(prune=lambda node: isinstance(node, exp.Subquery)):
            if isinstance(node, exp.Column):
                raise scope.fail(_TALLY, node, _HINT)

    def _column(self, inner: exp.Subquery) -> exp.Column:
        """The column that stands for an aggregate over a table."""
        index = self._tallies.setdefault(self._tally(inner), len(self._tallies))
        name = exp.to_identifier(str(index), quoted=True)
        at = place(inner)
        if at is not None:
            name.meta["start"], name.meta["end"] = at[0], at[1] - 1
        return exp.Column(this=name)

    def _tally(self, inner: exp.Subquery) -> Tally:
        at = place(inner) or self._start
        if not isinstance(inner.this, exp.Select):
            raise StatementError(f"expected {_TALLY}", expected=_TALLY, span=at, hint=_HINT)
        shape = shape_of(self._text, inner.this, Clauses(), (), at)
        column = self._aggregated(shape, at)
        where = tuple(condition.predicate for condition in shape.where)
        (table,) = shape.relations
        fn = cast("Literal['count', 'sum', 'avg']", shape.aggregates[0].fn)
        joint: Predicate | None = And(where) if len(where) > 1 else next(iter(where), None)
        return Tally(table, fn, column if fn != "count" else None, joint)

    def _aggregated(self, shape: Shape, at: tuple[int, int]) -> str | None:
        """The column of the one aggregate that there is."""
        aggregate = shape.aggregates[0] if len(shape.aggregates) == 1 else None
        if (
            aggregate is None
            or shape.star
            or shape.columns
            or shape.group_by
            or shape.distinct
            or len(shape.relations) != 1
        ):
            raise StatementError(f"expected {_TALLY}", expected=_TALLY, span=at, hint=_HINT)
        if aggregate.fn not in ("count", "sum", "avg"):
            what = "COUNT, SUM or AVG in a condition"
            raise StatementError(
                f"expected {what}, found {aggregate.fn.upper()}",
                expected=what,
                found=aggregate.fn.upper(),
                span=at,
                hint=_EXTREME,
            )
        if len(aggregate.columns) > 1 or aggregate.factor != 1.0:
            raise StatementError(f"expected {aggregate.fn.upper()} of one column", span=at)
        return aggregate.columns[0].name if aggregate.columns else None


def check_trigger(trigger: Trigger, tables: Sequence[CreateTable]) -> None:
    """Raise StatementError if the tables of the view do not allow the condition."""
    from tolerant.sql.key_conditions import check_leaf  # the kinds need this module to read statements

    by_name = {table.name: table for table in tables}
    places = set(map(str, range(len(trigger.tallies))))
    if not places or set(columns(trigger.condition)) != places:
        raise StatementError("a condition is on its aggregates, each of them", about=("WHEN",), hint=_HINT)
    for tally in trigger.tallies:
        table = by_name.get(tally.table)
        if table is None:
            names = ", ".join(by_name)
            raise StatementError(
                f"WHEN is about the tables of the view ({names}), found {tally.table}", about=("WHEN",)
            )
        for name in (*columns(tally.where), *([tally.column] if tally.column else [])):
            if table.type_of(name) is None:
                raise StatementError(f"table {table.name} has no column {name}", about=(name, "WHEN"))
        if tally.column and table.type_of(tally.column) not in NUMERIC:
            kind = table.type_of(tally.column)
            raise StatementError(f"{tally.fn.upper()} is of numbers, {tally.column} is {kind}", about=(tally.column,))
        for leaf in leaves(tally.where):
            check_leaf(leaf, table.type_of(leaf.column) or "")
    for leaf in leaves(trigger.condition):
        if isinstance(leaf, Like) or not all(comparable("DOUBLE", operand) for operand in operands(leaf)):
            raise StatementError("an aggregate is compared with numbers", about=("WHEN",), hint=_HINT)
