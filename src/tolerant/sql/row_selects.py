"""A SELECT over the rows of one table, carried out here and now.

Only what is listed here is understood: columns, constants, `+ - * / %`, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE,
IS NULL, and COUNT, SUM, AVG, MIN, MAX; with WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET and DISTINCT. It is
compiled into functions of a row, never into text that somebody runs. NULL follows SQL's three-valued logic; integers
are exact, sums of floats are rounded once, and what is divided by 0 is NULL.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlglot import Token, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Like, check_pattern, matches
from tolerant.sql.scope import Scope, constant, place
from tolerant.sql.shape_reader import unreadable, written
from tolerant.sql.sqlglot_log import silent_sqlglot
from tolerant.sql.statements import CreateTable
from tolerant.sql.tokens import span, tokenise
from tolerant.sql.types import NUMERIC

MOST_ROWS = 10_000
"""Rows that a SELECT without LIMIT may give."""

_PARTS = ("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct")
_EXPRESSION = "a column, a constant, + - * / %, a comparison, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL or an aggregate"
_NUMBER, _TEXT, _TRUTH, _NULL = "a number", "a text", "a truth value", "NULL"
_JOINED = "a view joins tables: CREATE QUERY name AS SELECT … REFRESH WITHIN '10 s'"
_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)

Row = Mapping[str, Any]
Tree = TypeVar("Tree", bound=exp.Expr)


def parsed(text: str, tokens: Sequence[Token], kind: type[Tree], what: str) -> Tree:
    """The tokens as sqlglot reads them, which must be `what`.

    Raises:
        StatementError: they are something else.
    """
    at = (tokens[0].start, tokens[-1].end + 1)
    try:
        trees = Dialect.get_or_raise("spark").parser().parse(list(tokens), text)
    except ParseError as error:
        raise unreadable(text, list(tokens), error) from None
    except RecursionError:
        raise StatementError("the statement is nested too deeply", span=at) from None
    except Exception as error:  # sqlglot promises nothing about what it raises on odd input
        raise StatementError(f"the statement cannot be read: {error!s:.200}", span=at) from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, kind):
        raise StatementError(f"expected {what}", expected=what, span=span(tokens[0]))
    return tree


@dataclass(frozen=True)
class RowSelect:
    """A SELECT that has been read: the names of what it gives, and `run`."""

    columns: tuple[str, ...]
    _run: Callable[[Iterable[Row]], list[tuple[Any, ...]]]

    def run(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """What it gives over these rows.

        Raises:
            StatementError: a number is too large, or there are more than MOST_ROWS rows and no LIMIT.
        """
        return [dict(zip(self.columns, row, strict=True)) for row in self._run(rows)]


@silent_sqlglot()
def read_select(text: str, table: CreateTable) -> RowSelect:
    """The SELECT that the text says, over the rows of the table.

    Raises:
        StatementError: it is none, or asks for more than this module's docstring lists.
    """
    tree = parsed(text, tokenise(text), exp.Select, "a single SELECT")
    try:
        return _Reader(text, tree, table).read()
    except (RecursionError, SqlglotError):  # writing a tree that is nested deeply, sqlglot raises either
        raise StatementError("the select is nested too deeply", span=(0, len(text))) from None


@dataclass(frozen=True)
class _Typed:
    """An expression: what kind of value it has, and how it is worked out of a row, or of a group."""

    kind: str
    value: Callable[[Any], Any]


@dataclass
class _Group:
    """Rows that are aggregated together: their key, and then what the aggregates come to."""

    key: tuple[Any, ...]
    rows: list[Row]
    results: tuple[Any, ...] = ()


class _Reader:
    """Reads the parts of one SELECT."""

    def __init__(self, text: str, tree: exp.Select, table: CreateTable) -> None:
        self._tree, self._table = tree, table
        source = tree.args["from_"].this if tree.args.get("from_") else tree
        self._scope = Scope(text, {source.alias_or_name: table.name}, ())
        for part, value in tree.args.items():
            if value and part not in _PARTS:
                hint = _JOINED if part == "joins" else ""
                raise StatementError(f"a SELECT over rows has no {written(part)}", span=place(tree), hint=hint)
        if any(node is not tree for node in tree.find_all(exp.Query)):
            raise StatementError("a SELECT over rows has no SELECT inside", span=place(tree))
        for column in tree.find_all(exp.Column):
            self._scope.column(column)  # refuses another table's
            column.set("table", None)
            if isinstance(column.this, exp.Identifier):
                column.this.set("quoted", False)

    def read(self) -> RowSelect:
        outputs = self._outputs()
        aliases = {name: node for name, node in outputs if self._table.type_of(name) is None}
        groups = self._groups(outputs, aliases)
        having = self._tree.args.get("having")
        order = [self._ordered(node, outputs, aliases) for node in self._part("order")]
        parts = [node for _, node in outputs] + [node for node, _, _ in order] + ([having.this] if having else [])
        grouped = bool(self._tree.args.get("group")) or any(part.find(*_AGGREGATES) for part in parts) or bool(having)
        compiler = _Compiler(self._scope, self._table, groups if grouped else None)
        where = self._condition("where", _Compiler(self._scope, self._table, None), {})
        plan = _Plan(
            where=where,
            keys=[_Compiler(self._scope, self._table, None).read(node) for node in groups],
            aggregates=compiler.aggregates,
            is_grouped=grouped,
            is_keyed=bool(self._tree.args.get("group")),
            outputs=[compiler.read(node) for _, node in outputs],
            having=self._condition("having", compiler, aliases),
            order=[(compiler.read(node), descending, nulls_first) for node, descending, nulls_first in order],
            distinct=bool(self._tree.args.get("distinct")),
            limit=self._count("limit"),
            offset=self._count("offset") or 0,
        )
        return RowSelect(tuple(name for name, _ in outputs), plan.run)

    def _part(self, name: str) -> list[exp.Expr]:
        part = self._tree.args.get(name)
        return [] if part is None else part.expressions

    def _outputs(self) -> list[tuple[str, exp.Expr]]:
        """Names and expressions of the select list; a star is all columns."""
        outputs: list[tuple[str, exp.Expr]] = []
        for node in self._tree.expressions:
            star = node.this if isinstance(node, exp.Column) else node
            if isinstance(star, exp.Star) and not any(star.args.values()):
                outputs += [(column.name, exp.column(column.name)) for column in self._table.columns]
            else:
                written_as = node.name if isinstance(node, exp.Column) else node.sql("spark")
                outputs.append((node.alias or written_as, node.unalias()))
        names = [name for name, _ in outputs]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise StatementError(
                    f"two columns are called {name}", found=name, span=place(self._tree), hint="name one with AS"
                )
        distinct = self._tree.args.get("distinct")
        if distinct and distinct.args.get("on"):
            raise StatementError("a SELECT over rows has no DISTINCT ON", span=place(self._tree))
        return outputs

    def _groups(self, outputs: list[tuple[str, exp.Expr]], aliases: Mapping[str, exp.Expr]) -> list[exp.Expr]:
        group = self._tree.args.get("group")
        if group is None:
            return []
        if any(value for part, value in group.args.items() if part != "expressions"):
            raise StatementError("GROUP BY takes columns and expressions", span=place(group))
        keys = [self._named(node, outputs, aliases).unnest() for node in group.expressions]
        for node in keys:
            if node.find(*_AGGREGATES):
                raise self._scope.fail("an expression without aggregates in GROUP BY", node)
        return keys

    def _ordered(
        self, node: exp.Expr, outputs: list[tuple[str, exp.Expr]], aliases: Mapping[str, exp.Expr]
    ) -> tuple[exp.Expr, bool, bool]:
        """An expression of ORDER BY, whether it descends, and whether NULL comes first."""
        assert isinstance(node, exp.Ordered)
        named = self._named(node.this, outputs, aliases)
        if self._tree.args.get("distinct") and named.unnest() not in [output.unnest() for _, output in outputs]:
            raise self._scope.fail("a column of the SELECT in ORDER BY, beside DISTINCT", node.this)
        descending = bool(node.args.get("desc"))
        first = node.args.get("nulls_first")
        return named, descending, not descending if first is None else bool(first)

    def _named(self, node: exp.Expr, outputs: list[tuple[str, exp.Expr]], aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """An expression, an alias of the select list, or the number of one of its columns."""
        number = constant(node) if isinstance(node.unnest(), exp.Literal) else None
        if isinstance(number, int) and not isinstance(number, bool):
            if not 1 <= number <= len(outputs):
                raise self._scope.fail(f"a number from 1 to {len(outputs)}", node)
            return outputs[number - 1][1]
        return self._resolved(node, aliases)

    def _resolved(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        def put(part: exp.Expr) -> exp.Expr:
            known = isinstance(part, exp.Column) and aliases.get(part.name)
            return known.copy() if known else part

        return node.transform(put)

    def _condition(self, part: str, compiler: _Compiler, aliases: Mapping[str, exp.Expr]) -> Callable[[Any], Any]:
        clause = self._tree.args.get(part)
        if clause is None:
            return lambda context: True
        condition = compiler.read(self._resolved(clause.this, aliases))
        compiler.need(condition, (_TRUTH,), clause.this)
        return condition.value

    def _count(self, part: str) -> int | None:
        clause = self._tree.args.get(part)
        if clause is None:
            return None
        number = constant(clause.expression) if clause.expression is not None else None
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise StatementError(f"expected a whole number after {part.upper()}, 0 or more", span=place(clause))
        return number


class _Compiler:
    """Expressions → functions: of a row, or with `groups` of a `_Group`, whose aggregates are collected here."""

    def __init__(self, scope: Scope, table: CreateTable, groups: Sequence[exp.Expr] | None) -> None:
        self._scope, self._table, self._groups = scope, table, groups
        self.aggregates: list[Callable[[list[Row]], Any]] = []

    def read(self, node: exp.Expr) -> _Typed:
        """The expression, compiled.

        Raises:
            StatementError: it is not one of those that are listed.
        """
        node = node.unnest()
        for index, key in enumerate(self._groups or ()):
            if node == key:
                kind = _Compiler(self._scope, self._table, None).read(key).kind
                return _Typed(kind, _part_of_key(index))
        if isinstance(node, exp.Null):
            return _Typed(_NULL, lambda context: None)
        value = constant(node)
        if value is not None:
            return _Typed(_kind(value), lambda context: value)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, _AGGREGATES):
            return self._aggregate(node)
        if isinstance(node, exp.Neg):
            return self._arithmetic(node, lambda a, b: -b, exp.Literal.number(0), node.this)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[type(node)], node.this, node.expression)
        return self._truth(node)

    def need(self, typed: _Typed, kinds: tuple[str, ...], node: exp.Expr) -> None:
        """Raise StatementError unless an expression is of one of these kinds, or NULL."""
        if typed.kind not in (*kinds, _NULL):
            raise self._scope.fail(" or ".join(kinds), node, f"this is {typed.kind}")

    def _column(self, node: exp.Column) -> _Typed:
        name, type_name = node.name, self._table.type_of(node.name)
        if type_name is None:
            known = ", ".join(column.name for column in self._table.columns)
            raise StatementError(
                f"table {self._table.name} has no column {name}",
                expected=f"one of {known}",
                found=name,
                span=place(node),
                hint=f"it has {known}",
            )
        if self._groups is not None:
            hint = f"add GROUP BY {name}, or aggregate it"
            raise self._scope.fail("an aggregate or a column of GROUP BY", node, hint)
        kind = _NUMBER if type_name in NUMERIC else _TEXT if type_name == "STRING" else _TRUTH
        return _Typed(kind, lambda row: row[name])

    def _arithmetic(
        self, node: exp.Expr, combine: Callable[[Any, Any], Any], left: exp.Expr, right: exp.Expr
    ) -> _Typed:
        first, second = self.read(left), self.read(right)
        self.need(first, (_NUMBER,), left)
        self.need(second, (_NUMBER,), right)
        text = node.sql("spark")

        def value(context: Any) -> Any:
            a, b = first.value(context), second.value(context)
            return None if a is None or b is None else _finite(lambda: combine(a, b), text)

        return _Typed(_NUMBER, value)

    def _truth(self, node: exp.Expr) -> _Typed:
        if type(node) in _COMPARISONS:
            return self._comparison(node, _COMPARISONS[type(node)], node.this, node.expression)
        if isinstance(node, exp.And | exp.Or):
            return self._chain(node)
        if isinstance(node, exp.Not):
            inner = self._condition(node.this)
            return _Typed(_TRUTH, lambda context: _negated(inner(context)))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            tested = self.read(node.this).value
            return _Typed(_TRUTH, lambda context: tested(context) is None)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            above = self._comparison(node, operator.ge, node.this, node.args["low"]).value
            below = self._comparison(node, operator.le, node.this, node.args["high"]).value
            return _Typed(_TRUTH, lambda context: _all((above(context), below(context))))
        if isinstance(node, exp.In) and not any(node.args.get(part) for part in ("query", "unnest", "field")):
            each = [self._comparison(node, operator.ne, node.this, option).value for option in node.expressions]
            return _Typed(_TRUTH, lambda context: _negated(_all(condition(context) for condition in each)))
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node)
        raise self._scope.fail(_EXPRESSION, node)

    def _condition(self, node: exp.Expr) -> Callable[[Any], Any]:
        typed = self.read(node)
        self.need(typed, (_TRUTH,), node)
        return typed.value

    def _chain(self, node: exp.Expr) -> _Typed:
        """A chain of ANDs or ORs, however long."""
        parts: list[exp.Expr] = []
        stack = [node]
        while stack:
            part = stack.pop().unnest()
            if type(part) is type(node) and (self._groups is None or part not in self._groups):
                stack += [part.expression, part.this]
            else:
                parts.append(part)
        each = [self._condition(part) for part in parts]
        if isinstance(node, exp.And):
            return _Typed(_TRUTH, lambda context: _all(condition(context) for condition in each))
        return _Typed(_TRUTH, lambda context: _negated(_all(_negated(condition(context)) for condition in each)))

    def _comparison(
        self, node: exp.Expr, compare: Callable[[Any, Any], Any], left: exp.Expr, right: exp.Expr
    ) -> _Typed:
        first, second = self.read(left), self.read(right)
        if _NULL not in (first.kind, second.kind) and first.kind != second.kind:
            raise self._scope.fail(f"{first.kind} to compare with {first.kind}", right, f"this is {second.kind}")

        def value(context: Any) -> Any:
            a, b = first.value(context), second.value(context)
            return None if a is None or b is None else compare(a, b)

        return _Typed(_TRUTH, value)

    def _like(self, node: exp.Expr) -> _Typed:
        escape: object = constant(node.expression) if isinstance(node, exp.Escape) else "\\"
        like = node.this if isinstance(node, exp.Escape) else node
        pattern = constant(like.expression) if isinstance(like, exp.Like) else None
        if not isinstance(pattern, str) or not isinstance(escape, str):
            raise self._scope.fail("LIKE and a pattern in quotes", node)
        try:
            check_pattern(pattern, escape)
        except ValueError as error:
            raise StatementError(str(error), found=pattern, span=place(like)) from None
        text = self.read(like.this)
        self.need(text, (_TEXT,), like.this)
        condition = Like("text", pattern, escape)

        def value(context: Any) -> Any:
            subject = text.value(context)
            return None if subject is None else matches(condition, {"text": subject})

        return _Typed(_TRUTH, value)

    def _aggregate(self, node: exp.Expr) -> _Typed:
        if self._groups is None:
            raise self._scope.fail("an expression without aggregates", node)
        argument = node.this
        distinct = isinstance(argument, exp.Distinct)
        arguments = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
        if len(arguments) != 1 or arguments[0] is None or node.expressions:
            raise self._scope.fail(f"{type(node).__name__.upper()} of one expression", node)
        kind, collect = _NUMBER, _COLLECTED[type(node)]
        if isinstance(arguments[0], exp.Star):
            if not isinstance(node, exp.Count):
                raise self._scope.fail("a column", node)
            inner = _Typed(_NUMBER, lambda row: 1)
        else:
            inner = _Compiler(self._scope, self._table, None).read(arguments[0])
        if isinstance(node, exp.Sum | exp.Avg):
            self.need(inner, (_NUMBER,), arguments[0])
        elif isinstance(node, exp.Min | exp.Max):
            kind = inner.kind
        text, place_of_result = node.sql("spark"), len(self.aggregates)

        def result(rows: list[Row]) -> Any:
            values = [value for value in map(inner.value, rows) if value is not None]
            return _finite(lambda: collect(list(dict.fromkeys(values)) if distinct else values), text)

        self.aggregates.append(result)
        return _Typed(kind, lambda group: group.results[place_of_result])


@dataclass
class _Plan:
    """What to do with the rows, step by step."""

    where: Callable[[Any], Any]
    keys: list[_Typed]
    aggregates: list[Callable[[list[Row]], Any]]
    is_grouped: bool
    is_keyed: bool
    outputs: list[_Typed]
    having: Callable[[Any], Any]
    order: list[tuple[_Typed, bool, bool]]
    distinct: bool
    limit: int | None
    offset: int

    def run(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        chosen: list[Any] = [row for row in rows if self.where(row) is True]
        if self.is_grouped:
            chosen = [group for group in self._grouped(chosen) if self.having(group) is True]
        for key, descending, nulls_first in reversed(self.order):
            chosen.sort(key=_sort_key(key.value, nulls_first is not descending), reverse=descending)
        results = [tuple(output.value(context) for output in self.outputs) for context in chosen]
        if self.distinct:
            results = list(dict.fromkeys(results))
        if self.limit is None and len(results) - self.offset > MOST_ROWS:
            raise StatementError(
                f"the SELECT gives {len(results):,} rows, more than {MOST_ROWS:,}",
                expected=f"at most {MOST_ROWS:,} rows, or LIMIT",
                hint="add LIMIT and a number, which may be larger",
            )
        return results[self.offset : None if self.limit is None else self.offset + self.limit]

    def _grouped(self, rows: list[Row]) -> list[_Group]:
        groups: dict[tuple[Any, ...], _Group] = {} if self.is_keyed else {(): _Group((), [])}
        for row in rows:
            key = tuple(part.value(row) for part in self.keys)
            groups.setdefault(key, _Group(key, [])).rows.append(row)
        for group in groups.values():
            group.results = tuple(aggregate(group.rows) for aggregate in self.aggregates)
        return list(groups.values())


def _sort_key(value: Callable[[Any], Any], nulls_small: bool) -> Callable[[Any], Any]:
    def key(context: Any) -> Any:
        result = value(context)
        return (result is None) is not nulls_small, 0 if result is None else result

    return key


def _part_of_key(index: int) -> Callable[[_Group], Any]:
    return lambda group: group.key[index]


def _kind(value: object) -> str:
    return _TRUTH if isinstance(value, bool) else _TEXT if isinstance(value, str) else _NUMBER


def _all(truths: Iterable[bool | None]) -> bool | None:
    result: bool | None = True
    for truth in truths:
        if truth is False:
            return False
        result = None if truth is None else result
    return result


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _finite(work: Callable[[], Any], text: str) -> Any:
    try:
        result = work()
        if not isinstance(result, float) or math.isfinite(result):
            return result
    except OverflowError:
        pass
    raise StatementError(f"{text} is too large a number", found=text)


def _divided(a: Any, b: Any) -> Any:
    return None if b == 0 else a / b


def _rest(a: Any, b: Any) -> Any:
    """What a division leaves, with the sign of what is divided."""
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _sum(values: list[Any]) -> Any:
    if not values:
        return None
    return math.fsum(values) if any(isinstance(value, float) for value in values) else sum(values)


def _mean(values: list[Any]) -> Any:
    return _sum(values) / len(values) if values else None


_ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: _divided,
    exp.Mod: _rest,
}
_COLLECTED: dict[type[exp.Expr], Callable[[list[Any]], Any]] = {
    exp.Count: len,
    exp.Sum: _sum,
    exp.Avg: _mean,
    exp.Min: lambda values: min(values, default=None),
    exp.Max: lambda values: max(values, default=None),
}
