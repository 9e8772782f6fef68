"""WHERE and ON → predicates, equalities and bands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from tolerant.sql.cursor import INFINITY
from tolerant.sql.errors import StatementError
from tolerant.sql.limits import DEEPEST_CONDITION
from tolerant.sql.predicates import (
    And,
    Between,
    Compare,
    In,
    Like,
    Not,
    Operand,
    Operator,
    Or,
    Predicate,
    check_pattern,
)
from tolerant.sql.scope import Scope, constant, place
from tolerant.sql.shape import Band, ColumnRef, Condition, Equality

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED: dict[str, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEVER_NULL = "key columns are never NULL"
_COMPARISON = "a comparison of a column with constants (=, <>, <, <=, >, >=, IN, BETWEEN, LIKE)"


@dataclass
class Conditions:
    """What has to hold, sorted by what it is."""

    scope: Scope
    where: list[Condition] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)

    def add(self, node: exp.Expr) -> None:
        """Take the condition of a WHERE or ON apart at its ANDs."""
        for part in _chain(node, exp.And):
            if isinstance(part, exp.Boolean) and part.this:  # also what sqlglot makes of a JOIN without ON
                continue
            band, equality = self._band(part), self._equality(part)
            if band is not None:
                self.bands.append(band)
            elif equality is not None:
                self.equalities.append(equality)
            else:
                relations: set[str | None] = set()
                predicate = _predicate(self.scope, part, relations, 1)
                self.where.append(Condition(predicate, frozenset(relations), place(part)))

    def _equality(self, node: exp.Expr) -> Equality | None:
        if not isinstance(node, exp.EQ) or len(self.scope.relations) == 1:
            return None
        left, right = self.scope.column(node.this.unnest()), self.scope.column(node.expression.unnest())
        return Equality(left, right) if left is not None and right is not None else None

    def _band(self, node: exp.Expr) -> Band | None:
        joined = len(self.scope.relations) > 1
        if not joined or not isinstance(node, exp.Between) or not isinstance(node.this.unnest(), exp.Sub):
            return None
        difference = node.this.unnest()
        left, right = self.scope.column(difference.this.unnest()), self.scope.column(difference.expression.unnest())
        if left is None or right is None:
            raise self.scope.fail("a column minus a column", difference)
        return Band(left, right, _end(self.scope, node.args["low"]), _end(self.scope, node.args["high"]))


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The parts of a chain of ANDs or ORs, in order; without recursion, for chains may be long."""
    stack = [node]
    while stack:
        part = stack.pop().unnest()
        if type(part) is kind:
            stack += [part.expression, part.this]
        else:
            yield part


def _predicate(scope: Scope, node: exp.Expr, relations: set[str | None], depth: int) -> Predicate:
    node = node.unnest()
    if depth > DEEPEST_CONDITION:
        raise StatementError(f"conditions are nested deeper than {DEEPEST_CONDITION}", span=place(node))
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(_predicate(scope, part, relations, depth + 1) for part in _chain(node, type(node)))
        return And(parts) if isinstance(node, exp.And) else Or(parts)
    if isinstance(node, exp.Not):
        return Not(_predicate(scope, node.this, relations, depth + 1))
    leaf = _leaf(scope, node, relations)
    if leaf is None:
        raise scope.fail(_COMPARISON, node, _NEVER_NULL if isinstance(node, exp.Is) else "")
    return leaf


def _leaf(scope: Scope, node: exp.Expr, relations: set[str | None]) -> Predicate | None:
    if isinstance(node, exp.Escape | exp.Like):
        return _like(scope, node, relations)
    if type(node) in _OPERATORS:
        return _comparison(scope, node, relations)
    if isinstance(node, exp.In) and not any(node.args.get(other) for other in ("query", "unnest", "field")):
        column = _column(scope, node.this, relations)
        return In(column.name, tuple(_operand(scope, value) for value in node.expressions))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        column = _column(scope, node.this, relations)
        return Between(column.name, _end(scope, node.args["low"]), _end(scope, node.args["high"]))
    if isinstance(node, exp.Column) and scope.column(node) is not None:
        return Compare(_column(scope, node, relations).name, "=", True)
    return None


def _comparison(scope: Scope, node: exp.Expr, relations: set[str | None]) -> Compare:
    op = _OPERATORS[type(node)]
    left, right = node.this.unnest(), node.expression.unnest()
    column = scope.column(left)
    if column is None and (other := scope.column(right)) is not None:
        column, right, op = other, left, _TURNED[op]
    if column is None:
        raise scope.fail("a column", left)
    relations.add(column.relation)
    return Compare(column.name, op, _operand(scope, right))


def _like(scope: Scope, node: exp.Escape | exp.Like, relations: set[str | None]) -> Like | None:
    escape: object = "\\"
    like = node
    if isinstance(node, exp.Escape):
        escape, like = constant(node.expression), node.this
    if not isinstance(like, exp.Like):
        return None
    column, pattern = _column(scope, like.this, relations), constant(like.expression)
    if not isinstance(pattern, str) or not isinstance(escape, str):
        raise scope.fail("a pattern in quotes after LIKE", like.expression)
    try:
        check_pattern(pattern, escape)
    except ValueError as error:
        raise StatementError(str(error), found=pattern, span=place(like.expression)) from None
    return Like(column.name, pattern, escape)


def _column(scope: Scope, node: exp.Expr, relations: set[str | None]) -> ColumnRef:
    column = scope.column(node.unnest())
    if column is None:
        raise scope.fail("a column", node)
    relations.add(column.relation)
    return column


def _end(scope: Scope, node: exp.Expr) -> Operand:
    """An end of a BETWEEN: an operand, or `INFINITY`, unless a parameter is called so."""
    bare = node.unnest()
    word = bare.this.unnest() if isinstance(bare, exp.Neg) else bare
    plain = isinstance(word, exp.Column) and not word.table and not word.this.args.get("quoted")
    if plain and word.name.upper() == INFINITY and word.name not in scope.parameters:
        return -math.inf if isinstance(bare, exp.Neg) else math.inf
    return _operand(scope, node)


def _operand(scope: Scope, node: exp.Expr) -> Operand:
    operand = scope.operand(node.unnest())
    if operand is None:
        raise scope.fail("a constant", node, _NEVER_NULL if isinstance(node.unnest(), exp.Null) else "")
    return operand
