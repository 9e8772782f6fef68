"""Where a query runs: in the pipeline of its stream, of its table, of its pair of tables, or of its views."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import ClassVar, Self

from tolerant.sql.spreads import Ranges, ranges_over
from tolerant.sql.statements import (
    AggregateSelect,
    BandJoinSelect,
    CreateTable,
    EqualityJoinSelect,
    KeepJoinSelect,
    Select,
    ViewSelect,
    relations,
)

# No stream or table has these in its name.
_BETWEEN = "+"
_GROWING = "~"
_VIEWS = "@views"
_BY_QUERIES = ".bands"


@dataclass(frozen=True)
class Pair:
    """Two tables with queries over both: one pipeline serves all of these, whichever table they name first.

    `tables` stand in the order of their names; so does `name` have them, "lines+orders". Queries with several shards
    (`WITH (shards = n)`) have a pipeline of their own: one for what rows are joined on, "lines+orders@4.ad21f06c", with
    these columns, in the order of the tables, in `on`; or one for all band joins, "lines+orders@4.bands". Band joins
    that are spread by ranges have `ranges` too, and one for their columns and these.
    """

    between: ClassVar[str] = _BETWEEN

    tables: tuple[CreateTable, CreateTable]
    spread: str = ""
    on: tuple[str, str] = field(default=("", ""), compare=False)
    ranges: Ranges | None = field(default=None, compare=False)

    @classmethod
    def of(cls, one: CreateTable, other: CreateTable) -> Self:
        """The pair of two tables, given in any order."""
        return cls((one, other) if one.name < other.name else (other, one))

    @property
    def name(self) -> str:
        """What its pipeline is called, and its topics by."""
        return home_name(tuple(table.name for table in self.tables), self.between) + self.spread

    @property
    def shards(self) -> int:
        """How many it has."""
        return shards_of(self.name)

    @property
    def by_value(self) -> bool:
        """Whether rows belong to some of several shards, by what they are joined on."""
        return is_by_value(self.name)


class GrowingPair(Pair):
    """Two tables that only grow, with queries that keep some of their rows (`KEEP n ROWS`), "lines~orders".

    It has a pipeline of its own beside that of the pair, which holds every row.
    """

    between: ClassVar[str] = _GROWING


@dataclass(frozen=True)
class Views:
    """One or more tables with views over exactly these, in the order of their names: one pipeline serves them all."""

    tables: tuple[CreateTable, ...]

    @property
    def name(self) -> str:
        """What its pipeline is called, "lines+orders@views"."""
        return home_name(tuple(table.name for table in self.tables)) + _VIEWS


def home_name(names: tuple[str, ...], between: str = _BETWEEN) -> str:
    """The name of the pipeline for queries over these relations.

    >>> home_name(("orders", "lines")), home_name(("stock",))
    ('lines+orders', 'stock')
    """
    return between.join(sorted(names))


def home_of(select: Select) -> str:
    """The name of the stream, table, pair or views whose pipeline a query runs in: its status, dead letters and
    subscriptions are under this name.
    """
    if isinstance(select, AggregateSelect):
        return select.stream
    if isinstance(select, ViewSelect):
        return home_name(relations(select)) + _VIEWS
    if isinstance(select, KeepJoinSelect):
        return home_name(relations(select), _GROWING) + _spread(select)
    if isinstance(select, EqualityJoinSelect | BandJoinSelect):
        return home_name(relations(select)) + _spread(select)
    return home_name(relations(select))


def _spread(select: KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) -> str:
    """What the name of the home of a query with several shards ends with: how many, and by which columns."""
    if select.shards == 1:
        return ""
    what: list[object] = [*_on(select)]
    if isinstance(select, BandJoinSelect):
        ranges = ranges_over(select)
        if ranges is None:
            return f"@{select.shards}{_BY_QUERIES}"
        what += [ranges.left, *astuple(ranges.stretch)]
    return f"@{select.shards}.{zlib.crc32(json.dumps(what).encode()):08x}"


def shards_of(home: str) -> int:
    """How many shards the pipeline of a pair has.

    >>> shards_of("lines+orders"), shards_of("lines+orders@4.bands")
    (1, 4)
    """
    spread = home.partition("@")[2]
    return int(spread.partition(".")[0]) if spread else 1


def is_by_value(home: str) -> bool:
    """Whether rows belong to some of the shards of a pair, by what they are joined on: else all hold every row.

    >>> is_by_value("lines+orders@4.ad21f06c"), is_by_value("lines+orders@4.bands"), is_by_value("lines+orders")
    (True, False, False)
    """
    return "@" in home and not home.endswith(_BY_QUERIES)


def _on(select: KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) -> tuple[str, str]:
    """The columns that are compared, in the order of the names of their tables."""
    one, other = select.on
    return (one, other) if select.left < select.right else (other, one)


def is_of_views(home: str) -> bool:
    """Whether views run there."""
    return home.endswith(_VIEWS)


def is_growing(home: str) -> bool:
    """Whether queries with `KEEP n ROWS` run there."""
    return _GROWING in home


def tables_of(home: str) -> tuple[str, ...]:
    """The names of the tables that the name of a pair or of views stands for, or the one name of anything else.

    >>> tables_of("lines+orders"), tables_of("lines~orders"), tables_of("lines+orders@views"), tables_of("stock")
    (('lines', 'orders'), ('lines', 'orders'), ('lines', 'orders'), ('stock',))
    """
    return tuple(re.split(r"[+~]", home.partition("@")[0]))


def pair_of(home: str, tables: Sequence[CreateTable], select: Select | None = None) -> Pair:
    """The pair of that name, whose tables are these; `select`: that of a query which runs there."""
    one, other = tables
    pair = GrowingPair.of(one, other) if is_growing(home) else Pair.of(one, other)
    on = _on(select) if isinstance(select, KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) else ("", "")
    ranges = ranges_over(select) if isinstance(select, BandJoinSelect) else None
    return type(pair)(pair.tables, home.removeprefix(pair.name), on, ranges)
