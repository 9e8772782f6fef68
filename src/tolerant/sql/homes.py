"""Where a query runs: in the pipeline of its stream, of its table, or of its pair of tables."""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.sql.statements import AggregateSelect, CreateTable, Select, relations

_BETWEEN = "+"  # no stream or table has it in its name


@dataclass(frozen=True)
class Pair:
    """Two tables with queries over both: one pipeline serves all of these, whichever table they name first.

    `tables` stand in the order of their names; so does `name` have them, "lines+orders".
    """

    tables: tuple[CreateTable, CreateTable]

    @classmethod
    def of(cls, one: CreateTable, other: CreateTable) -> Pair:
        """The pair of two tables, given in any order."""
        return cls((one, other) if one.name < other.name else (other, one))

    @property
    def name(self) -> str:
        """What its pipeline is called, and its topics by."""
        return home_name(tuple(table.name for table in self.tables))


def home_name(names: tuple[str, ...]) -> str:
    """The name of the pipeline for queries over these relations.

    >>> home_name(("orders", "lines")), home_name(("stock",))
    ('lines+orders', 'stock')
    """
    return _BETWEEN.join(sorted(names))


def home_of(select: Select) -> str:
    """The name of the stream, table or pair whose pipeline a query runs in: its status, dead letters and subscriptions
    are under this name.
    """
    if isinstance(select, AggregateSelect):
        return select.stream
    return home_name(relations(select))


def tables_of(home: str) -> tuple[str, ...]:
    """The names of the tables that a pair's name stands for, or the one name of anything else."""
    return tuple(home.split(_BETWEEN))
