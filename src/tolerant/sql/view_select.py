"""What a view's select is made of, and the SQL that keeps the view when its tables change.

A view is a join of tables with conditions, and what is grouped or selected of it. Its tables' changes are signed rows:
1 for a row that came, -1 for one that went. The join is linear in each table, so that what the changes of one table do
to it is the join of these changes with the other tables, signs multiplied; `delta_sql` says that per group, as counts,
sums and extremes. Nothing but `kinds.views` (its check) and Spark's driver need this module: it loads sqlglot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from tolerant.sql.allowed_expressions import check_expressions, spark_text, written_name
from tolerant.sql.errors import NotAvailable, StatementError
from tolerant.sql.join_links import join_links
from tolerant.sql.shape_reader import check_length, written
from tolerant.sql.sqlglot_log import silent_sqlglot
from tolerant.sql.statements import CreateTable

WEIGHT = "tolerant_weight"
"""The column of signed rows that says how often they came (or, negative, went)."""

MOST_TABLES = 16

MOST_UNLINKED = 2
"""Groups of tables that no equality links: every row of one is joined with every row of the other."""

RUNNING = "tolerant_running"
"""The function of two rows' weights that ends a join in Spark whose push was cancelled; else it is true."""

_OURS = "tolerant_"
"""How the names of columns begin that signed rows have besides those of their table."""

_PARTS = ("expressions", "from_", "joins", "where", "group", "distinct")
_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
Function = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True)
class Part:
    """A column of the view: a key, `rows` (COUNT(*)), or a function of an argument; `index` says which key or
    argument.
    """

    name: str
    kind: Literal["key", "rows", "count", "sum", "avg", "min", "max"]
    index: int = 0


@dataclass(frozen=True)
class ViewPlan:
    """A view taken apart. `sql` (the whole select), `keys`, `arguments` and `conditions` are SQL of one dialect, made
    of what `tolerant.sql.allowed_expressions` lists and nothing else.

    `occurrences`: (alias as SQL, table) in the order of the text. `columns`: for each table those that the view reads.
    `grouped`: a row a group; else a row each time that the join has it. `extremes`: (function, argument) of MIN and
    MAX; `summed`: the arguments of SUM and AVG. `parts`: a select of the keys and the arguments, for their types;
    empty: there are none. `joined`: pairs of occurrences by place that Spark joins (`join_links`).
    """

    tables: tuple[str, ...]
    occurrences: tuple[tuple[str, str], ...]
    columns: dict[str, tuple[str, ...]]
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    conditions: tuple[str, ...]
    outputs: tuple[Part, ...]
    grouped: bool
    sql: str = ""
    parts: str = ""
    joined: tuple[tuple[int, int], ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all rows are one group, which is there even when they are none."""
        return self.grouped and not self.keys

    @property
    def extremes(self) -> tuple[tuple[Literal["min", "max"], int], ...]:
        """(function, argument) of every MIN and MAX."""
        parts = [(part.kind, part.index) for part in self.outputs if part.kind in ("min", "max")]
        return tuple(dict.fromkeys(parts))

    @property
    def summed(self) -> tuple[int, ...]:
        """The arguments of SUM and AVG."""
        return tuple(dict.fromkeys(part.index for part in self.outputs if part.kind in ("sum", "avg")))


# -- the statement -----------------------------------------------------------------------------------------------------


@silent_sqlglot()
def plan_of(sql: str, tables: Sequence[CreateTable], dialect: str = "spark") -> ViewPlan:
    """The plan of a view's select over these tables.

    Raises:
        NotAvailable: it has parts that a view cannot have yet.
        StatementError: it names a column that is not there, or selects one that it does not group by.
    """
    tree = _parsed(sql)
    _check_names(tables)
    schema: dict[str, object] = {table.name: {column.name: column.type for column in table.columns} for table in tables}
    try:
        written = _checked(tree)
        qualified = qualify(_balanced(tree.copy()), schema=schema, dialect="spark", validate_qualify_columns=True)
        check_expressions(qualified)  # it is this tree that is evaluated
        return _Reading(qualified, written, tables, dialect).plan()
    except StatementError as error:
        error.span = None  # a place in this text, not in the statement
        raise
    except SqlglotError as error:
        reason = str(error).split(". Line")[0]
        raise StatementError(f"the view cannot be read: {reason:.200}", about=("SELECT",)) from None
    except (RecursionError, *_ODD) as error:
        raise _unreadable(error) from None


_ODD = (ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError, NotImplementedError)
"""sqlglot promises nothing about what it raises on odd input."""


def _parsed(sql: str) -> exp.Expr:
    check_length(len(sql))
    try:
        return parse_one(sql, dialect="spark")
    except (SqlglotError, RecursionError, *_ODD) as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> StatementError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0]
    return StatementError(f"the view cannot be read: {reason:.200}", about=("SELECT",))


def _check_names(tables: Sequence[CreateTable]) -> None:
    """Spark takes names that differ in capitals for one, and its files have columns of our own."""
    names: list[str] = []
    for table in tables:
        names.append(table.name.lower())
        columns = [column.name.lower() for column in table.columns]
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise StatementError(f"table {table.name} has two columns {twice} that differ in capitals only")
        ours = next((name for name in columns if name.startswith(_OURS)), None)
        if ours is not None:
            raise StatementError(f"a view cannot read table {table.name}: its column {ours} has a name that views use")
    if len(set(names)) != len(names):
        raise StatementError(f"a view cannot read tables whose names differ in capitals only: {', '.join(names)}")


def _balanced(tree: exp.Expr) -> exp.Expr:
    """Chains of ANDs and ORs as trees of little depth: sqlglot climbs from each column to the root."""
    for node in [
        node for node in tree.walk() if isinstance(node, exp.Connector) and type(node.parent) is not type(node)
    ]:
        parts = list(node.flatten(unnest=False))
        if len(parts) > 2:
            node.replace(_halved(type(node), parts))
    return tree


def _halved(kind: type[exp.Expr], parts: Sequence[exp.Expr]) -> exp.Expr:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return kind(this=_halved(kind, parts[:middle]), expression=_halved(kind, parts[middle:]))


def _checked(tree: exp.Expr) -> exp.Select:
    if not isinstance(tree, exp.Select):
        raise _later(type(tree).__name__.upper(), type(tree).__name__.upper())
    for name, value in tree.args.items():
        if value and name not in _PARTS:
            word = written(name)
            raise _later(word, word.split()[0])
    for join in tree.args.get("joins") or []:
        word = str(join.args.get("side") or join.args.get("method") or "").upper()
        if word or str(join.args.get("kind") or "").upper() not in ("", "INNER", "CROSS"):
            raise _later(f"{word or join.args['kind']} JOIN", word or str(join.args["kind"]))
    nested = next((node for node in tree.walk() if node is not tree and isinstance(node, exp.Query)), None)
    if nested is not None:
        raise _later("a select inside the select", "SELECT", "SELECT")
    group = tree.args.get("group")
    for name, value in group.args.items() if group is not None else ():
        if value and name != "expressions":
            raise _later(f"GROUP BY {name.upper()}", "GROUP")
    for node in tree.walk():
        _check_function(node)
    check_expressions(tree)
    return tree


def _check_function(node: exp.Expr) -> None:
    if isinstance(node, exp.Window):
        raise _later("OVER", "OVER")
    if isinstance(node, exp.AggFunc):
        name = written_name(node).lower()
        if type(node) not in _FUNCTIONS:
            raise _later(f"the aggregate {name.upper()}", name)
        if isinstance(node.this, exp.Distinct) or node.expressions:
            raise _later(f"DISTINCT in {name.upper()}", name)
        if node.find_ancestor(exp.Where, exp.Join, exp.Group) is not None:
            raise StatementError(f"expected {name.upper()} in the select list, found it elsewhere", about=(name,))


def _later(what: str, *about: str) -> NotAvailable:
    hint = "a view is SELECT … FROM tables JOIN … ON … WHERE … GROUP BY …, with COUNT, SUM, AVG, MIN and MAX"
    return NotAvailable(f"views with {what} are not available yet", about=about, hint=hint)


class _Reading:
    """Takes a qualified select apart."""

    def __init__(self, tree: exp.Expr, written: exp.Select, tables: Sequence[CreateTable], dialect: str) -> None:
        self._tree, self._written, self._dialect = tree, written, dialect
        self._tables = {table.name.lower(): table for table in tables}
        self._arguments: list[str] = []

    def plan(self) -> ViewPlan:
        occurrences = self._occurrences()
        grouped_by = [self._sql(key) for key in (self._tree.args.get("group") or exp.Group()).expressions]
        outputs = [expression.unalias() for expression in self._tree.expressions]
        aggregated = any(output.find(exp.AggFunc) for output in outputs)
        grouped = bool(aggregated or grouped_by or self._tree.args.get("distinct"))
        keys = grouped_by if aggregated or grouped_by else list(dict.fromkeys(map(self._sql, outputs)))
        names = self._names()
        parts = [self._part(name, output, keys) for name, output in zip(names, outputs, strict=True)]
        return ViewPlan(
            parts=self._types_of([*keys, *self._arguments], occurrences),
            joined=self._joined(),
            tables=tuple(dict.fromkeys(table for _, table in occurrences)),
            occurrences=occurrences,
            columns=self._columns(occurrences),
            keys=tuple(keys),
            arguments=tuple(self._arguments),
            conditions=tuple(f"({self._sql(condition)})" for condition in self._conditions()),
            outputs=tuple(parts),
            grouped=grouped,
            sql=self._sql(self._tree),
        )

    def _sql(self, node: exp.Expr) -> str:
        return spark_text(node, self._dialect)

    def _quoted(self, alias: str) -> str:
        return exp.to_identifier(alias, quoted=True).sql(self._dialect)

    def _occurrences(self) -> tuple[tuple[str, str], ...]:
        sources = [self._tree.args["from_"].this, *(join.this for join in self._tree.args.get("joins") or [])]
        for source in sources:
            if not isinstance(source, exp.Table):
                raise _later("FROM anything but tables", "FROM")
        if len(sources) > MOST_TABLES:
            raise StatementError(f"a view is over {MOST_TABLES} tables at most, found {len(sources)}", about=("FROM",))
        strange = next((source.name for source in sources if source.name.lower() not in self._tables), None)
        if strange is not None:
            raise StatementError(f"the view reads {strange:.60}, which is none of its tables", about=("FROM", strange))
        return tuple((self._quoted(source.alias_or_name), self._tables[source.name.lower()].name) for source in sources)

    def _joined(self) -> tuple[tuple[int, int], ...]:
        sources = [self._tree.args["from_"].this, *(join.this for join in self._tree.args.get("joins") or [])]
        names = [source.alias_or_name for source in sources]
        links = join_links(self._conditions(), names)
        if len(links.groups) > MOST_UNLINKED:
            apart = [" with ".join(names[place] for place in group) for group in links.groups]
            raise StatementError(
                f"the view joins every row of {apart[0]:.60} with every row of {apart[1]:.60} and of {apart[2]:.60}"
                + (f" and of {len(apart) - 3} more" if len(apart) > 3 else "")
                + f": at most {MOST_UNLINKED} inputs may be joined without an equality",
                about=("JOIN", "FROM"),
                hint="link them, say ON a.x = b.y: AND, not OR, with one input on one side",
            )
        return links.joined

    def _types_of(self, parts: Sequence[str], occurrences: tuple[tuple[str, str], ...]) -> str:
        if not parts:
            return ""
        selected = ", ".join(f"{sql} AS p{index}" for index, sql in enumerate(parts))
        froms = " CROSS JOIN ".join(f"{self._quoted(table)} AS {alias}" for alias, table in occurrences)
        return f"SELECT {selected} FROM {froms}"

    def _conditions(self) -> list[exp.Expr]:
        conditions = [join.args["on"] for join in self._tree.args.get("joins") or [] if join.args.get("on")]
        if self._tree.args.get("where"):
            conditions.append(self._tree.args["where"].this)
        return conditions

    def _columns(self, occurrences: tuple[tuple[str, str], ...]) -> dict[str, tuple[str, ...]]:
        of_alias = dict(occurrences)
        used: dict[str, set[str]] = {table: set() for _, table in occurrences}
        for column in self._tree.find_all(exp.Column):
            used[of_alias[self._quoted(column.table)]].add(column.name.lower())
        return {
            name: tuple(c.name for c in self._tables[name.lower()].columns if c.name.lower() in columns)
            for name, columns in used.items()
        }

    def _names(self) -> list[str]:
        """What the columns are called: as the statement says, by the column, or by what they are."""
        star = any(output.is_star for output in self._written.expressions)
        written = [None] * len(self._tree.expressions) if star else self._written.expressions
        pairs = list(zip(written, self._tree.expressions, strict=True))
        names = [self._name(one, found) for one, found in pairs]
        plain = [None if one is not None and one.alias else found.unalias() for one, found in pairs]
        names = [
            f"{column.table}.{name}" if names.count(name) > 1 and isinstance(column, exp.Column) else name
            for name, column in zip(names, plain, strict=True)
        ]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise StatementError(f"two columns of the view are called {twice}: name them apart with AS", about=(twice,))
        return names

    def _name(self, written: exp.Expr | None, expression: exp.Expr) -> str:
        if written is not None and written.alias:
            return str(written.alias)
        inner = expression.unalias()
        if isinstance(inner, exp.Column):
            return str(written.name if isinstance(written, exp.Column) else expression.alias_or_name)
        return str(
            written.sql("spark", normalize_functions="lower") if written is not None else expression.alias_or_name
        )

    def _part(self, name: str, output: exp.Expr, keys: list[str]) -> Part:
        if self._sql(output) in keys:
            return Part(name, "key", keys.index(self._sql(output)))
        kind = _FUNCTIONS.get(type(output))
        if kind is None:
            if output.find(exp.AggFunc):
                raise _later("what is worked out of aggregates", "SELECT")
            raise StatementError(f"{name} is selected, and not grouped by", about=("SELECT", name))
        argument = output.this
        if kind == "count" and isinstance(argument, exp.Star | exp.Literal):
            return Part(name, "rows")
        if argument.find(exp.AggFunc):
            raise _later("an aggregate of an aggregate", "SELECT")
        text = self._sql(argument)
        if text not in self._arguments:
            self._arguments.append(text)
        return Part(name, kind, self._arguments.index(text))


# -- the SQL -----------------------------------------------------------------------------------------------------------


def delta_sql(plan: ViewPlan, table: str) -> str:
    """What changes of a table do to each group: k0 …; n; c0 … and s0 … (count and sum of each argument); i0 …, o0 …
    (the extreme of what came and of what went).

    Reads the sources `d<table>` (its changes, signed), `b<table>` and `e<table>` (the table before and after them) and
    `h<other>` (the others, as the view has absorbed them); `<table>` counts in `plan.tables`. A table that is joined
    with itself has a term for each occurrence, so that what changes on both sides counts once.
    """
    terms = []
    for place, (_, name) in enumerate(plan.occurrences):
        if name == table:
            terms.append(_signed(plan, [_source(plan, table, place, other) for other in range(len(plan.occurrences))]))
    inner = " UNION ALL ".join(terms)
    extremes = [
        f"{fn.upper()}(CASE WHEN w {sign} 0 THEN a{argument} END) AS {letter}{index}"
        for index, (fn, argument) in enumerate(plan.extremes)
        for sign, letter in ((">", "i"), ("<", "o"))
    ]
    return _aggregated(plan, inner, extremes)


def full_sql(plan: ViewPlan, only: bool = False) -> str:
    """Every group from the tables as the view has absorbed them, the sources `h<table>`: k0 …; n; c0 …; s0 …; e0 …
    (extremes). `only`: just the groups with the keys k0 … in the source `stale`.
    """
    inner = _signed(plan, [f"h{plan.tables.index(table)}" for _, table in plan.occurrences])
    if only and plan.keys:
        same = " AND ".join(f"j.k{index} IS NOT DISTINCT FROM stale.k{index}" for index in range(len(plan.keys)))
        inner = f"SELECT j.* FROM ({inner}) AS j JOIN stale ON {same}"
    extremes = [
        f"{fn.upper()}(CASE WHEN w > 0 THEN a{argument} END) AS e{index}"
        for index, (fn, argument) in enumerate(plan.extremes)
    ]
    if extremes:  # what went must take away what came before an extreme is looked for
        names = ", ".join(_columns_of(plan))
        inner = f"SELECT {names}, SUM(w) AS w FROM ({inner}) AS j GROUP BY {names} HAVING SUM(w) <> 0"
    return _aggregated(plan, inner, extremes)


def source_names(plan: ViewPlan, table: str) -> dict[str, tuple[str, Literal["delta", "before", "after"]]]:
    """The sources that `delta_sql` reads: name → (table, which of its rows)."""
    names: dict[str, tuple[str, Literal["delta", "before", "after"]]] = {}
    for place, (_, name) in enumerate(plan.occurrences):
        if name != table:
            names[f"h{plan.tables.index(name)}"] = (name, "before")
            continue
        for other, (_, again) in enumerate(plan.occurrences):
            if again == table:
                source = _source(plan, table, place, other)
                names[source] = (table, {"d": "delta", "b": "before", "e": "after"}[source[0]])  # type: ignore[assignment]
    return names


def _source(plan: ViewPlan, table: str, place: int, other: int) -> str:
    """What occurrence `other` reads in the term in which occurrence `place` has the changes."""
    name = plan.occurrences[other][1]
    when = "h" if name != table else "d" if other == place else "e" if other < place else "b"
    return f"{when}{plan.tables.index(name)}"


def _columns_of(plan: ViewPlan) -> list[str]:
    return [f"k{index}" for index in range(len(plan.keys))] + [f"a{index}" for index in range(len(plan.arguments))]


def _signed(plan: ViewPlan, sources: Sequence[str]) -> str:
    """The joined rows: keys, arguments, and w, the product of the signs."""
    selected = [f"{sql} AS k{index}" for index, sql in enumerate(plan.keys)]
    selected += [f"{sql} AS a{index}" for index, sql in enumerate(plan.arguments)]
    selected.append(" * ".join(f"{alias}.{WEIGHT}" for alias, _ in plan.occurrences) + " AS w")
    froms = " CROSS JOIN ".join(
        f"{source} AS {alias}" for source, (alias, _) in zip(sources, plan.occurrences, strict=True)
    )
    # The checks come first: a comparison that is false would keep Spark from looking at them.
    aliases = [alias for alias, _ in plan.occurrences]
    checks = [f"{RUNNING}({aliases[left]}.{WEIGHT}, {aliases[right]}.{WEIGHT})" for left, right in plan.joined]
    conditions = [*checks, *plan.conditions]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(selected)} FROM {froms}{where}"


def _aggregated(plan: ViewPlan, inner: str, extremes: Sequence[str]) -> str:
    keys = [f"k{index}" for index in range(len(plan.keys))]
    counts = [f"SUM(CASE WHEN a{i} IS NULL THEN 0 ELSE w END) AS c{i}" for i in range(len(plan.arguments))]
    sums = [f"SUM(w * a{i}) AS s{i}" for i in plan.summed]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, 'SUM(w) AS n', *counts, *sums, *extremes])} FROM ({inner}) AS j{group}"
