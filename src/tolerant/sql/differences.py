"""Where a file of statements and a log differ, and the statements that would bring the log to the file.

The file is the desired definition; `ALTER QUERY … WITHIN` is a later change, which a restart keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tolerant.sql.catalogue import Catalogue, without_files
from tolerant.sql.render import render
from tolerant.sql.statements import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    Drop,
    Statement,
)


@dataclass(frozen=True)
class Difference:
    """A stream, table or query that the log defines otherwise than the file does.

    `wanted` is the file's definition, `held` the log's. `remedy`: statements that bring the log to the file, in order.
    """

    wanted: CreateStream | CreateTable | CreateQuery
    held: CreateStream | CreateTable | CreateQuery
    remedy: tuple[Statement, ...]

    @property
    def tolerances(self) -> tuple[float, float] | None:
        """The file's and the log's, where nothing else differs."""
        if not isinstance(self.remedy[0], AlterQuery):
            return None
        return _within(self.wanted), _within(self.held)

    def __str__(self) -> str:
        lines = [
            f"{self.wanted.kind} {self.wanted.about} differs:",
            f"  log:  {render(self.held)}",
            f"  file: {render(self.wanted)}",
            "  the log comes to the file by: " + "; ".join(map(render, self.remedy)),
        ]
        return "\n".join(lines)


def differences(catalogue: Catalogue, statements: Iterable[Statement]) -> list[Difference]:
    """Where the catalogue and a file's statements define the same name otherwise, in the order of the file.

    ALTER statements of the file count as part of its definitions. What the file drops, or creates only where it does
    not exist, is not compared.
    """
    wanted: dict[tuple[str, str], CreateStream | CreateTable | CreateQuery] = {}
    for statement in statements:
        match statement:
            case CreateStream() | CreateTable() | CreateQuery() if not statement.if_not_exists:
                wanted.setdefault((statement.kind, statement.about), statement)
            case AlterQuery(name, within) if ("query", name) in wanted:
                wanted["query", name] = _altered(wanted["query", name], within)
            case Drop(what, name):
                wanted.pop((what, name), None)
    compared = (_compared(catalogue, statement) for statement in wanted.values())
    return [difference for difference in compared if difference is not None]


def as_created(catalogue: Catalogue, statements: Iterable[Statement]) -> Catalogue:
    """The catalogue with the tolerances that the CREATE statements of a file give, where nothing else differs."""
    other = catalogue.copy()
    for statement in statements:
        existing = catalogue.queries.get(statement.about) if isinstance(statement, CreateQuery) else None
        if existing is not None:
            created = _altered(existing, _within(statement))
            if without_files(created) == without_files(statement):
                other.queries[existing.name] = created
    return other


def _compared(catalogue: Catalogue, wanted: CreateStream | CreateTable | CreateQuery) -> Difference | None:
    existing = _held(catalogue, wanted)
    if existing is None or without_files(existing) == without_files(wanted):
        return None
    return Difference(wanted, existing, _remedy(catalogue, wanted, existing))


def _held(catalogue: Catalogue, wanted: Statement) -> CreateStream | CreateTable | CreateQuery | None:
    match wanted:
        case CreateStream(stream):
            current = catalogue.streams.get(stream.name)
            return None if current is None else CreateStream(current)
        case CreateTable(name):
            return catalogue.tables.get(name)
        case _:
            return catalogue.queries.get(wanted.about)


def _remedy(catalogue: Catalogue, wanted: Statement, existing: Statement) -> tuple[Statement, ...]:
    if isinstance(wanted, CreateQuery):
        within = _within(wanted)
        if isinstance(existing, CreateQuery) and without_files(_altered(existing, within)) == without_files(wanted):
            return (AlterQuery(wanted.name, within),)
        return (Drop("query", wanted.name), wanted)
    over = catalogue.queries_over(wanted.about)
    drop = Drop("stream" if isinstance(wanted, CreateStream) else "table", wanted.about)
    return (*(Drop("query", query.name) for query in over), drop, wanted, *over)


def _altered(query: CreateStream | CreateTable | CreateQuery, within: float) -> CreateQuery:
    assert isinstance(query, CreateQuery)
    return replace(query, select=query.select.with_tolerance(within))


def _within(statement: Statement) -> float:
    return statement.select.tolerance or 0.0 if isinstance(statement, CreateQuery) else 0.0
