"""A SELECT's tokens → its shape: sqlglot parses them as Spark SQL, this puts the tree into our terms."""

from __future__ import annotations

import math

from sqlglot import Token, exp, parse_one
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError

from tolerant.sql.allowed_expressions import check_expressions
from tolerant.sql.conditions import Conditions
from tolerant.sql.errors import StatementError
from tolerant.sql.limits import LONGEST_VIEW
from tolerant.sql.query_kind import aggregate_functions
from tolerant.sql.scope import Scope, constant, place
from tolerant.sql.shape import Aggregated, Clauses, ColumnRef, Equality, Shape
from tolerant.sql.tokens import source, span

_PARTS = ("expressions", "from_", "joins", "where", "group", "distinct")
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Count: "count",
}
_NAMES = {"with": "WITH", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "laterals": "LATERAL VIEW"}
_OUTPUT = "SUM, AVG, MIN, MAX or COUNT of a column, a column, or *"
_PRODUCT = "a column, numbers, and * or / between them"


def outline(text: str, tokens: list[Token], clauses: Clauses, parameters: tuple[str, ...]) -> Shape:
    """The shape of the select that the tokens say; `text` is what their offsets are in.

    Raises:
        StatementError: it is no select, or has parts that no standing query has.
    """
    try:
        return _outline(text, tokens, clauses, parameters)
    except StatementError:
        raise
    except RecursionError:
        raise StatementError("the select is nested too deeply", span=_all(tokens)) from None
    except ParseError as error:
        raise unreadable(text, tokens, error) from None
    except Exception as error:
        # sqlglot promises nothing about what it raises on odd input; a statement must never bring the reader down.
        raise StatementError(f"the select cannot be read: {error!s:.200}", span=_all(tokens)) from None


def _outline(text: str, tokens: list[Token], clauses: Clauses, parameters: tuple[str, ...]) -> Shape:
    start = span(tokens[0])
    if clauses.refresh is not None:
        check_length(tokens[-1].end - tokens[0].start, start)
    trees = Dialect.get_or_raise("spark").parser().parse(tokens, text)
    tree = trees[0] if len(trees) == 1 else None
    if clauses.refresh is not None and isinstance(tree, exp.Query):
        return _view(tree, clauses, start)
    if not isinstance(tree, exp.Select):
        raise StatementError("expected a single SELECT", expected="SELECT", found="another query", span=start)
    return shape_of(text, tree, clauses, parameters, start)


def shape_of(
    text: str, tree: exp.Select, clauses: Clauses, parameters: tuple[str, ...], start: tuple[int, int]
) -> Shape:
    """The shape of a select that has been read; `start`: where it begins in the text."""
    _refuse_other_parts(tree, _PARTS, start)
    relations = _relations(text, tree, start)
    scope = Scope(text, relations, parameters)
    conditions = Conditions(scope)
    _join_conditions(tree, conditions)
    if tree.args.get("where"):
        conditions.add(tree.args["where"].this)
    outputs = [_output(scope, expression.unalias()) for expression in tree.expressions]
    return Shape(
        relations=tuple(relations.values()),
        clauses=clauses,
        star=any(output is None for output in outputs),
        distinct=bool(tree.args.get("distinct")),
        columns=tuple(output for output in outputs if isinstance(output, ColumnRef)),
        aggregates=tuple(output for output in outputs if isinstance(output, Aggregated)),
        equalities=tuple(conditions.equalities),
        bands=tuple(conditions.bands),
        where=tuple(conditions.where),
        group_by=_group_by(scope, tree),
        start=start,
    )


def _view(tree: exp.Query, clauses: Clauses, start: tuple[int, int]) -> Shape:
    check_expressions(tree, later=True)
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if table.name not in own]
    for table in tables:
        if table.args.get("db") or not table.name:
            raise StatementError("expected the name of a table", found=table.sql("spark"), span=place(table) or start)
    names = tuple(dict.fromkeys(table.name for table in tables))
    if not names:
        raise StatementError("a view is over tables, found none", expected="FROM and a table", span=start)
    return Shape(names, clauses, sql=_readable(tree, start), start=start)


def _readable(tree: exp.Query, start: tuple[int, int]) -> str:
    """The select as SQL that says the same when it is read again."""
    text = tree.sql("spark", comments=False)
    again = parse_one(text, dialect="spark").sql("spark", comments=False)
    if again != text:
        raise StatementError("the view is read in another way than it is written; write it more simply", span=start)
    return text


def check_length(characters: int, start: tuple[int, int] | None = None) -> None:
    """Raise StatementError if a view's select is longer than one may be."""
    if characters > LONGEST_VIEW:
        raise StatementError(
            f"a view's select has at most {LONGEST_VIEW:,} characters, found {characters:,}", span=start
        )


def written(part: str) -> str:
    """A part of a select, by its name in sqlglot's tree, as people write it."""
    plain = part.strip("_")
    return _NAMES.get(plain, plain.upper().replace("_", " "))


def _refuse_other_parts(node: exp.Expr, allowed: tuple[str, ...], start: tuple[int, int]) -> None:
    for name, value in node.args.items():
        if not value or name in allowed:
            continue
        part = value[0] if isinstance(value, list) else value
        word = written(name)
        at = place(part) if isinstance(part, exp.Expr) else None
        raise StatementError(
            f"a standing query has no {word}",
            found=word,
            expected="SELECT, FROM, JOIN, WHERE and GROUP BY",
            span=at or start,
        )


def _relations(text: str, tree: exp.Select, start: tuple[int, int]) -> dict[str, str]:
    """The relations by the names that columns use for them, in the order of the text."""
    source_part = tree.args.get("from_")
    if source_part is None:
        raise StatementError("expected FROM and a stream or table", expected="FROM", found="no FROM", span=start)
    joins = tree.args.get("joins") or []
    for join in joins:
        _refuse_other_join(join, place(join) or start)
    relations: dict[str, str] = {}
    for table in (source_part.this, *(join.this for join in joins)):
        at = place(table) or start
        named = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and not table.args.get("db")
        if not named:
            found_text = text[slice(*at)][:60]
            raise StatementError(
                f"expected the name of a stream or table, found {found_text}",
                expected="the name of a stream or table",
                found=found_text,
                span=at,
            )
        _refuse_other_parts(table, ("this", "alias"), at)
        if table.args.get("alias"):
            _refuse_other_parts(table.args["alias"], ("this",), at)
        if table.alias_or_name in relations or table.name in relations.values():
            raise StatementError(f"{table.name} is joined with itself", found=table.name, span=at)
        relations[table.alias_or_name] = table.name
    if len(relations) > 2:
        raise StatementError(
            "expected at most two relations", expected="one or two relations", found=str(len(relations)), span=at
        )
    return relations


def _refuse_other_join(join: exp.Join, at: tuple[int, int]) -> None:
    words = " ".join(filter(None, (join.method, join.side, join.kind)))
    if words not in ("", "INNER", "CROSS"):
        raise StatementError(f"expected JOIN, found {words} JOIN", expected="JOIN", found=f"{words} JOIN", span=at)
    _refuse_other_parts(join, ("this", "on", "using", "kind"), at)


def _join_conditions(tree: exp.Select, conditions: Conditions) -> None:
    for join in tree.args.get("joins") or []:
        names = list(conditions.scope.relations.values())
        for column in join.args.get("using") or []:
            at = place(column)
            conditions.equalities.append(
                Equality(ColumnRef(names[0], column.name, at), ColumnRef(names[1], column.name, at))
            )
        if join.args.get("on"):
            conditions.add(join.args["on"])


def _group_by(scope: Scope, tree: exp.Select) -> tuple[ColumnRef, ...]:
    group = tree.args.get("group")
    if group is None:
        return ()
    _refuse_other_parts(group, ("expressions",), place(group) or (0, 1))
    columns = []
    for expression in group.expressions:
        column = scope.column(expression.unnest())
        if column is None:
            raise scope.fail("a key column in GROUP BY", expression)
        columns.append(column)
    return tuple(columns)


def _output(scope: Scope, node: exp.Expr) -> ColumnRef | Aggregated | None:
    """What one expression of the select list is; None: a star."""
    node = node.unnest()
    if isinstance(node, exp.Star) and not any(node.args.values()):
        return None
    column = scope.column(node)
    if column is not None:
        return column
    own = aggregate_functions()
    aggregates = [call for call in node.find_all(exp.AggFunc) if type(call) in _AGGREGATES or _function(call) in own]
    if len(aggregates) != 1:
        raise scope.fail(_OUTPUT, node)
    aggregate = aggregates[0]
    inner = _argument(scope, aggregate)
    factor, columns = _product(scope, node, aggregate)
    if columns:
        raise scope.fail(_OUTPUT, node)
    return Aggregated(_function(aggregate), _scaled(scope, inner.factor * factor, node), inner.columns, place(node))


def _function(aggregate: exp.AggFunc) -> str:
    return _AGGREGATES.get(type(aggregate), aggregate.sql_name().lower())


def _argument(scope: Scope, aggregate: exp.Expr) -> Aggregated:
    argument = aggregate.this
    if argument is None or isinstance(argument, exp.Distinct) or aggregate.expressions:
        raise scope.fail(f"{type(aggregate).__name__.upper()} of one column, without DISTINCT", aggregate)
    if isinstance(aggregate, exp.Count) and (isinstance(argument, exp.Star) or constant(argument) is not None):
        return Aggregated("count", 1.0, ())
    factor, columns = _product(scope, argument)
    if not columns:
        raise scope.fail("a column", argument)
    return Aggregated("", factor, columns)


def _product(scope: Scope, node: exp.Expr, stop: exp.Expr | None = None) -> tuple[float, tuple[ColumnRef, ...]]:
    """The factor and the columns of a product; `stop` counts as 1."""
    factor, columns = 1.0, []
    stack = [node]
    while stack:
        part = stack.pop().unnest()
        value = constant(part)
        column = scope.column(part)
        if part is stop:
            continue
        if column is not None:
            columns.append(column)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            factor *= value
        elif isinstance(part, exp.Neg):
            factor = -factor
            stack.append(part.this)
        elif isinstance(part, exp.Mul):
            stack += [part.expression, part.this]
        elif isinstance(part, exp.Div):
            divisor = constant(part.expression)
            if not isinstance(divisor, int | float) or isinstance(divisor, bool) or divisor == 0:
                raise scope.fail("a number other than 0 after /", part.expression)
            factor /= divisor
            stack.append(part.this)
        else:
            raise scope.fail(_PRODUCT, part)
    return _scaled(scope, factor, node), tuple(columns)


def _scaled(scope: Scope, factor: float, node: exp.Expr) -> float:
    if not math.isfinite(factor) or factor == 0:
        raise scope.fail("a factor that is finite and not 0", node)
    return float(factor)


def unreadable(text: str, tokens: list[Token], error: ParseError) -> StatementError:
    """What sqlglot says is wrong with these tokens, where it says it."""
    detail = error.errors[0] if error.errors else {}
    description = str(detail.get("description") or "").split("\n")[0]
    at = next((t for t in tokens if (t.line, t.col) == (detail.get("line"), detail.get("col"))), tokens[-1])
    written = source(text, at)
    found = written if len(written) <= 60 else written[:60] + "…"
    if description.startswith("Expecting "):
        what = description.removeprefix("Expecting ")
        return StatementError(f"expected {what} near {found}", expected=what, found=found, span=span(at))
    return StatementError(f"the select cannot be read near {found}", expected="Spark SQL", found=found, span=span(at))


def _all(tokens: list[Token]) -> tuple[int, int]:
    return tokens[0].start, tokens[-1].end + 1
