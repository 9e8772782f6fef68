"""The one list of what a view's select may consist of: Spark evaluates what people write, so that everything that is
not listed here is refused, whoever wrote it and however it came into the log.

`check_expressions` checks a tree; what Spark is given is `spark_text` of a tree that was checked, never the text that
was written: the two could be read differently (comments, hints, escapes, `${…}`). A function is listed if it is a pure
function of its arguments, and needs time and memory in proportion to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from tolerant.sql.errors import StatementError
from tolerant.sql.limits import DEEPEST_VIEW, MOST_VIEW_PARTS
from tolerant.sql.scope import place

_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_BINARY = ("this", "expression")

_SELECT: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: ("expressions", "from_", "joins", "where", "group", "distinct"),
    exp.From: ("this",),
    exp.Join: ("this", "on", "using", "kind"),
    exp.Table: ("this", "alias"),
    exp.TableAlias: ("this",),
    exp.Where: ("this",),
    exp.Group: ("expressions",),
    exp.Distinct: (),
    exp.Alias: ("this", "alias"),
    exp.Star: (),
}

_OPERATORS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Paren: ("this",),
    exp.Neg: ("this",),
    exp.Not: ("this",),
    **dict.fromkeys((exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), _BINARY),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    exp.Div: (*_BINARY, "safe"),
    exp.DPipe: (*_BINARY, "safe"),
    exp.Is: _BINARY,
    exp.In: ("this", "expressions"),
    exp.Between: ("this", "low", "high"),
    exp.Like: (*_BINARY, "negate"),
    exp.Escape: _BINARY,
    exp.Case: ("this", "ifs", "default"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.DataType: ("this", "expressions"),
    exp.DataTypeParam: ("this",),
}

AGGREGATES: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Count: ("this", "big_int"),
    exp.Sum: ("this",),
    exp.Avg: ("this",),
    exp.Min: ("this",),
    exp.Max: ("this",),
}
"""The aggregates of a view, each with the arguments that it may have in sqlglot's tree."""

FUNCTIONS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Abs: ("this",),
    exp.Ceil: ("this",),
    exp.Coalesce: ("this", "expressions"),
    exp.Concat: ("expressions", "safe"),
    exp.Contains: _BINARY,
    exp.EndsWith: _BINARY,
    exp.Exp: ("this",),
    exp.Floor: ("this",),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.If: ("this", "true", "false"),
    exp.IsNan: ("this",),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Left: _BINARY,
    exp.Length: ("this",),
    exp.Ln: ("this",),
    exp.Log: _BINARY,
    exp.Lower: ("this",),
    exp.Nullif: _BINARY,
    exp.Pow: _BINARY,
    exp.Right: _BINARY,
    exp.Round: ("this", "decimals"),
    exp.Sign: ("this",),
    exp.Sqrt: ("this",),
    exp.StartsWith: _BINARY,
    exp.StrPosition: ("this", "substr"),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this", "position"),
    exp.Upper: ("this",),
}
"""The functions of a view, each with the arguments that it may have in sqlglot's tree."""

_ALLOWED = _SELECT | _OPERATORS | AGGREGATES | FUNCTIONS

_NOT_YET = (
    *(exp.AggFunc, exp.Window, exp.WindowSpec, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.SetOperation, exp.With, exp.CTE, exp.Subquery),
)
"""What is read and refused by name when the view is checked against its tables."""

_PARTS_NOT_YET = (exp.Select, exp.Join, exp.Group, exp.Distinct)
"""What may have parts that are refused by name then."""

_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Join: ("INNER", "CROSS"),
    exp.Trim: ("LEADING", "TRAILING", "BOTH"),
}
"""Arguments that are words, and which words."""

_TYPES = ("STRING", "TEXT", "VARCHAR", "INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "BOOLEAN", "DECIMAL")
_DECIMALS = 30
_WILDCARDS = 3
_CHANGING = {"rand", "randn", "random", "uuid", "now", "shuffle", "monotonically_increasing_id", "current_timestamp"}
_CHANGING |= {"current_date", "current_time", "current_user", "localtimestamp", "unix_timestamp", "curdate"}

_NAMES: dict[type[exp.Expr], str] = {
    exp.EndsWith: "ENDSWITH",
    exp.IsNan: "ISNAN",
    exp.StartsWith: "STARTSWITH",
    exp.StrPosition: "INSTR",
    exp.Trim: "TRIM, LTRIM, RTRIM",
}


def _name_of(kind: type[exp.Expr]) -> str:
    return _NAMES.get(kind) or (kind.sql_name() if issubclass(kind, exp.Func) else kind.__name__).upper()


HINT = (
    "a view may use columns, numbers, texts, TRUE, FALSE, NULL, + - * / % DIV ||, comparisons, AND, OR, NOT, IN, "
    "BETWEEN, LIKE, IS NULL, CASE, CAST, the aggregates COUNT, SUM, AVG, MIN and MAX, and the functions "
    + ", ".join(sorted(map(_name_of, FUNCTIONS)))
)
"""What is allowed, for whoever wrote something else."""


def check_expressions(tree: exp.Expr, later: bool = False) -> None:
    """Check that a select consists of what a view may be made of; `later`: or of what is refused by name afterwards.

    Raises:
        StatementError: names what is not allowed, where it stands, and what is allowed.
    """
    for count, node in enumerate(tree.walk()):
        if count >= MOST_VIEW_PARTS:
            raise StatementError(f"a view has at most {MOST_VIEW_PARTS:,} columns, constants, operators and functions")
        if not (later and isinstance(node, _NOT_YET) and type(node) not in _ALLOWED):
            _check_node(node, later and isinstance(node, _PARTS_NOT_YET))
    _check_depth(tree)


def spark_text(tree: exp.Expr, dialect: str = "spark") -> str:
    """A tree that was checked as SQL: names in quotes, no comments."""
    return tree.sql(dialect, comments=False, identify=True)


def _check_node(node: exp.Expr, any_part: bool) -> None:
    allowed = _ALLOWED.get(type(node))
    if allowed is None:
        raise _refused(node)
    for name, value in () if any_part else node.args.items():
        if value and name not in allowed:
            raise _refused(node, name.strip("_").upper())
        is_word = isinstance(value, str) and not isinstance(node, exp.Identifier | exp.Literal)
        if is_word and value.upper() not in _WORDS.get(type(node), ()):
            raise _refused(node, value)
    check = _CHECKS.get(type(node))
    if check is not None:
        check(node)


def _check_name(node: exp.Expr) -> None:
    if "${" in node.name:
        raise StatementError("a view has no ${ in a name or a text", found=node.name[:60], span=_place(node))


def _check_literal(node: exp.Expr) -> None:
    if not node.is_string and not _NUMBER.fullmatch(node.name):
        raise _refused(node, node.name[:60])
    _check_name(node)


def _check_identifiers(node: exp.Expr) -> None:
    """A table, column or alias is called by plain names."""
    for part in ("this",) if isinstance(node, exp.Table) else ("this", "table"):
        named = node.args.get(part)
        star = part == "this" and isinstance(named, exp.Star)
        if named is not None and not isinstance(named, exp.Identifier) and not star:
            raise _refused(named if isinstance(named, exp.Expr) else node)


def _check_alias(node: exp.Expr) -> None:
    if not isinstance(node.args.get("alias"), exp.Identifier):
        raise _refused(node, "AS")


def _check_aggregate(node: exp.Expr) -> None:
    if node.args.get("this") is None:
        name = _name_of(type(node))
        what = f"{name} of one expression" + (" or *" if name == "COUNT" else "")
        raise StatementError(f"expected {what}, found none", expected=what, found="none", about=(name,))


def _check_type(node: exp.Expr) -> None:
    if node.this.value not in _TYPES or any(not part.this.is_int for part in node.expressions):
        raise _refused(node, f"the type {node.sql('spark')[:60]}")


def _check_round(node: exp.Expr) -> None:
    """Digits beyond those of any number would only make Java count them."""
    decimals = node.args.get("decimals")
    digits = decimals.this if isinstance(decimals, exp.Neg) else decimals
    if digits is not None and not (digits.is_int and len(digits.name) < 3 and int(digits.name) <= _DECIMALS):
        raise _wrong(node, f"a whole number of decimals, {_DECIMALS} at most, in ROUND", decimals)


def _check_like(node: exp.Expr) -> None:
    """Java tries every way in which wildcards could match."""
    pattern = node.expression
    if not pattern.is_string or pattern.name.count("%") > _WILDCARDS:
        raise _wrong(node, f"a pattern in quotes with at most {_WILDCARDS} % after LIKE", pattern)


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Identifier: _check_name,
    exp.Literal: _check_literal,
    exp.Table: _check_identifiers,
    exp.Column: _check_identifiers,
    exp.TableAlias: _check_identifiers,
    exp.Alias: _check_alias,
    exp.DataType: _check_type,
    exp.Round: _check_round,
    exp.Like: _check_like,
    **dict.fromkeys(AGGREGATES, _check_aggregate),
}


def _check_depth(tree: exp.Expr) -> None:
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST_VIEW:
            raise StatementError(f"the view is nested deeper than {DEEPEST_VIEW}", span=_place(node))
        chained = type(node) if isinstance(node, exp.Connector) else None
        stack += [(child, depth + (type(child) is not chained)) for child in node.iter_expressions()]


def _wrong(node: exp.Expr, what: str, given: exp.Expr | None) -> StatementError:
    found = "nothing" if given is None else given.sql("spark", comments=False)[:60]
    return StatementError(f"expected {what}, found {found}", expected=what, found=found, span=_place(node))


def _place(node: exp.Expr | None) -> tuple[int, int] | None:
    """Where an expression stands, or else what it is part of: types and the like do not know."""
    span = None
    while node is not None and span is None:
        span, node = place(node), node.parent
    return span


def _refused(node: exp.Expr, part: str = "") -> StatementError:
    """The error that names an expression, or a part of it, that is not allowed."""
    if isinstance(node, exp.Func):
        name = written_name(node)
        span = (node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else _place(node)
        if name.lower() in _CHANGING:
            reason = f"{name.lower()} is another at every look: a view is a function of its tables"
            return StatementError(reason, span=span, about=(name,))
        what = f"{part} in {name.upper()}" if part else f"the function {name.upper()}"
        return StatementError(f"a view cannot use {what:.80}", found=name, span=span, about=(name,), hint=HINT)
    what = part or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
    return StatementError(f"a view cannot use {what:.80}", found=what, span=_place(node), about=(what,), hint=HINT)


def written_name(node: exp.Func) -> str:
    """The name of a function as Spark has it."""
    if isinstance(node, exp.Anonymous):
        return node.name
    written = re.match(r"\w+(?=\()", node.sql("spark"))
    return written[0] if written else _name_of(type(node))
