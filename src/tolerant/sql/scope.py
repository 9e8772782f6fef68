"""Names inside a select.

Which relation a column belongs to, what is a parameter, what is a constant, and where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tolerant.sql.cursor import number
from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Operand, Parameter
from tolerant.sql.shape import ColumnRef, Span
from tolerant.streams import KeyPart


def place(node: exp.Expr) -> Span | None:
    """Where an expression stands in the text: from its first to its last part that knows."""
    starts, ends = [], []
    stack = [node]
    while stack:
        part = stack.pop()
        if "start" in part.meta:
            starts.append(part.meta["start"])
            ends.append(part.meta["end"] + 1)
        for value in part.args.values():
            if isinstance(value, exp.Expr):
                stack.append(value)
            elif isinstance(value, list):
                stack += [inner for inner in value if isinstance(inner, exp.Expr)]
    return (min(starts), max(ends)) if starts else None


@dataclass(frozen=True)
class Scope:
    """The text, the relations by the name that columns use for them, and the template's parameters."""

    text: str
    relations: Mapping[str, str]
    parameters: tuple[str, ...]

    def fail(self, what: str, node: exp.Expr, hint: str = "") -> StatementError:
        """The error that something else than this expression was expected."""
        at = place(node)
        what_is_there = type(node).__name__.upper() if at is None else self._written(at)
        if at is None and node.parent is not None:  # NULL and TRUE do not know where they stand
            at = place(node.parent)
        what_is_there = what_is_there if len(what_is_there) <= 60 else what_is_there[:60] + "…"
        return StatementError(
            f"expected {what}, found {what_is_there}", expected=what, found=what_is_there, span=at, hint=hint
        )

    def _written(self, at: Span) -> str:
        """The text at a place, with the parentheses that close what it opens: they have no node to know of them."""
        start, end = at
        while self.text.count("(", start, end) > self.text.count(")", start, end) and self.text[end : end + 1] in (
            ")",
            " ",
        ):
            end += 1
        return self.text[start:end]

    def column(self, node: exp.Expr) -> ColumnRef | None:
        """The column that an expression is; None: it is none, or a parameter."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        qualifier = node.table
        if not qualifier:
            return None if node.name in self.parameters else ColumnRef(None, node.name, place(node))
        if node.args.get("db") or qualifier not in self.relations:
            choices = " or ".join(f"{name}.{node.name}" for name in self.relations)
            raise self.fail(choices, node)
        return ColumnRef(self.relations[qualifier], node.name, place(node))

    def operand(self, node: exp.Expr) -> Operand | None:
        """The constant or parameter that an expression is; None: it is neither."""
        if isinstance(node, exp.Column) and not node.table and node.name in self.parameters:
            return Parameter(node.name)
        return constant(node)


def constant(node: exp.Expr) -> KeyPart | None:
    """The text, number or truth value that an expression is; None: it is none."""
    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        return None if value is None or isinstance(value, str | bool) else -value
    if not isinstance(node, exp.Literal):
        return None
    return str(node.this) if node.is_string else number(str(node.this))
