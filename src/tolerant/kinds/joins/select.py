"""Selects that join two tables: on equality with a range on each side, or on a band."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from tolerant.kinds.joins.spread_options import check_shards, check_stretch, shards_of, spread_of, spread_text
from tolerant.sql.errors import StatementError
from tolerant.sql.join_spreads import Ranges, Stretch
from tolerant.sql.names import quoted
from tolerant.sql.pipeline_ids import BY_SUBSCRIPTION, PipelineId
from tolerant.sql.predicates import Operand
from tolerant.sql.range_checks import check_ends, check_number, check_parameters, check_range, check_rounding
from tolerant.sql.select import Range, Select
from tolerant.sql.shape import Band, Shape, allow_clauses, between_ranges, sides
from tolerant.sql.sql_text import operand_text, range_text
from tolerant.sql.statements import CreateQuery, CreateTable, Tables, types_in
from tolerant.sql.templates import ranges_of
from tolerant.sql.types import NUMERIC

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


class JoinSelect(Select):
    """What the selects that join two tables have in common: `left`, `right`, what is compared, and `shards`."""

    left: str
    right: str
    on: tuple[str, str]
    shards: int = 1

    @property
    def relations(self) -> tuple[str, ...]:
        """`Select.relations`."""
        return (self.left, self.right)

    @property
    def compared(self) -> tuple[str, str]:
        """`Select.compared`."""
        left_column, right_column = self.on
        return (left_column, right_column) if self.left < self.right else (right_column, left_column)

    @property
    def kept_rows(self) -> int | None:
        """How many rows it keeps at most; None: all of them."""
        return None

    @property
    def copies(self) -> float | None:
        """In how many shards a row of the right table would be on average, spread by ranges; None: it is not known."""
        return None

    @property
    def partitioning(self) -> str:
        """What distinguishes the pipeline of a query with several shards: by what its rows are spread."""
        return _digest([*self.compared]) if self.shards > 1 else ""

    @property
    def pipeline(self) -> PipelineId:
        """`Select.pipeline`."""
        names = tuple(sorted(self.relations))
        return PipelineId(names, shards=self.shards, partitioning=self.partitioning)


def _digest(columns: list[object]) -> str:
    return f"{zlib.crc32(json.dumps(columns).encode()):08x}"


@dataclass(frozen=True)
class EqualityJoinSelect(JoinSelect):
    """`left JOIN right ON left.a = right.b` with a range on a column of each side.

    `shards`: over how many the rows are spread, by what they are joined on; `WITH (shards = n)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    left_range: Range
    right_range: Range
    shards: int = 1

    @property
    def selected_ranges(self) -> tuple[Range, ...]:
        """`Select.selected_ranges`."""
        return (self.left_range, self.right_range)

    def range_types(self, tables: Tables) -> list[str | None]:
        """`Select.range_types`."""
        of_left = types_in(tables, self.left, (self.left_range,))
        return of_left + types_in(tables, self.right, (self.right_range,))

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        where = f"{range_text(self.left_range, self.left)} AND {range_text(self.right_range, self.right)}"
        return f"{equality_text(self)} WHERE {where}{spread_text(self.shards)}"


@dataclass(frozen=True)
class BandJoinSelect(JoinSelect):
    """`left JOIN right ON right.b - left.a BETWEEN low AND high`; `on` is (a, b).

    `shards`: over how many the subscriptions or the rows are spread; `WITH (shards = n)`. `stretch`: what lets
    `tolerant.sql.join_spreads` choose; `WITH (…, lowest = x, highest = y, reach = z)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    low: Operand
    high: Operand
    shards: int = 1
    stretch: Stretch | None = None

    @property
    def selected_ranges(self) -> tuple[Range, ...]:
        """The range of the difference."""
        return (Range(f"{self.right}.{self.on[1]} - {self.left}.{self.on[0]}", self.low, self.high),)

    def range_types(self, tables: Tables) -> list[str | None]:
        """`Select.range_types`."""
        return ["DOUBLE"]

    @property
    def reach(self) -> float:
        """`Select.reach`."""
        return math.inf if self.stretch is None else self.stretch.reach

    @property
    def copies(self) -> float | None:
        """In how many shards a row of the right table is on average, spread by ranges, if rows lie evenly over the
        stretch; None: the stretch is not known.

        >>> BandJoinSelect("r", "s", ("b", "b"), -1, 1, 4, Stretch(0.0, 100.0, 5.0)).copies
        1.3
        """
        if self.stretch is None:
            return None
        known = self.stretch
        return min(1 + 2 * known.reach * (self.shards - 1) / (known.highest - known.lowest), float(self.shards))

    @property
    def is_by_range(self) -> bool:
        """Whether it is spread by ranges: where that copies less.

        With as many subscriptions as rows in each table, and n shards: by subscriptions 2n + 1 tables' worth is held,
        by ranges 1 + n + copies of the right table.
        """
        estimate = self.copies
        return self.shards > 1 and estimate is not None and estimate < self.shards

    @property
    def spread_ranges(self) -> Ranges | None:
        """`Select.spread_ranges`; None: it is spread by subscriptions, or not at all."""
        if self.stretch is None or not self.is_by_range:
            return None
        return Ranges(self.left, self.shards, self.stretch)

    @property
    def partitioning(self) -> str:
        """`JoinSelect.partitioning`."""
        if self.shards == 1:
            return ""
        ranges = self.spread_ranges
        return BY_SUBSCRIPTION if ranges is None else _digest([*self.compared, ranges.left, *astuple(ranges.stretch)])

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        left, right = quoted(self.left), quoted(self.right)
        difference = f"{right}.{quoted(self.on[1])} - {left}.{quoted(self.on[0])}"
        between = f"{difference} BETWEEN {operand_text(self.low)} AND {operand_text(self.high)}"
        return f"SELECT * FROM {left} JOIN {right} ON {between}{spread_text(self.shards, self.stretch)}"


def equality_text(select: JoinSelect) -> str:
    """The join on equality, without what limits it, as SQL."""
    left, right, (left_column, right_column) = quoted(select.left), quoted(select.right), select.on
    return f"SELECT * FROM {left} JOIN {right} ON {left}.{quoted(left_column)} = {right}.{quoted(right_column)}"


_EXPECTED = "JOIN … ON r.b = s.b WHERE r.a BETWEEN … AND s.c BETWEEN …, or JOIN … ON s.b - r.b BETWEEN …"


def recognise(shape: Shape) -> Select | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
    if len(shape.relations) != 2 or shape.aggregates or shape.clauses.keep is not None:
        return None
    allow_clauses(shape, ("with",), "a join")
    bounds = between_ranges(shape)
    plain = shape.star and not shape.distinct and not shape.group_by
    if plain and len(shape.bands) == 1 and not shape.equalities and not shape.where:
        return _band(shape, shape.bands[0])
    if plain and len(shape.equalities) == 1 and not shape.bands and bounds is not None and len(bounds) == 2:
        by_relation = dict(bounds)
        if set(by_relation) == set(shape.relations):
            left, right = shape.relations
            on = sides(shape, shape.equalities[0].left, shape.equalities[0].right)
            return EqualityJoinSelect(left, right, on, by_relation[left], by_relation[right], shards_of(shape))
    raise StatementError(
        "expected a join on equality with BETWEEN on each side, or a join on a difference BETWEEN two numbers",
        expected=_EXPECTED,
        found="another join",
        span=shape.start,
        hint=_unlimited(shape) if plain and shape.equalities and not shape.where and not shape.bands else "",
    )


def _unlimited(shape: Shape) -> str:
    first, second = shape.relations
    return f"every row of {first} and of {second} would have to be kept, without end: KEEP n ROWS keeps the best n"


def _band(shape: Shape, band: Band) -> BandJoinSelect:
    left, right = shape.relations
    on = sides(shape, band.minuend, band.subtrahend)
    if band.minuend.relation == right:
        return BandJoinSelect(left, right, on, band.low, band.high, *spread_of(shape))
    return BandJoinSelect(left, right, on, _negative(band.high, band), _negative(band.low, band), *spread_of(shape))


def _negative(end: Operand, band: Band) -> Operand:
    if isinstance(end, int | float) and not isinstance(end, bool):
        return -end
    raise StatementError(
        "expected the second relation's column minus the first's",
        expected=f"{band.subtrahend.relation}.{band.subtrahend.name} - {band.minuend.relation}.{band.minuend.name}",
        found=f"{band.minuend.relation}.{band.minuend.name} - {band.subtrahend.relation}.{band.subtrahend.name}",
        span=band.minuend.span,
        hint="the ends cannot be turned around where they are parameters",
    )


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    select = JoinSelect.of(query)
    left, right = catalogue.table(select.left), catalogue.table(select.right)
    if left.name == right.name:
        raise StatementError(f"{left.name} is joined with itself", found=left.name, about=("JOIN", left.name))
    check_shards(select.shards)
    band = BandJoinSelect.matching(query)
    if band is None:
        check_joined(select.on, left, right)
        for part, table in zip(ranges_of(query), (left, right), strict=True):
            check_range(part, table)
            check_rounding(query, part, table)
    else:
        for column, table in zip(band.on, (left, right), strict=True):
            check_number(column, table)
        check_ends(ranges_of(query)[0])
        check_stretch(band.stretch)
        _check_reach(band)
    check_parameters(query, ranges_of(query))


def _check_reach(select: BandJoinSelect) -> None:
    reach = select.reach
    for end in (select.low, select.high):
        if isinstance(end, int | float) and not -reach <= end <= reach:
            raise StatementError(
                f"the band ends at {end:g}, beyond its reach of {reach:g}",
                expected=f"numbers from {-reach:g} to {reach:g}",
                about=("WITH", "reach"),
            )


def check_joined(on: tuple[str, str], left: CreateTable, right: CreateTable) -> None:
    """Raise StatementError unless both tables have their column, and the two can be equal."""
    types = []
    for column, table in zip(on, (left, right), strict=True):
        type_name = table.type_of(column)
        if type_name is None:
            names = ", ".join(c.name for c in table.columns)
            raise StatementError(
                f"table {table.name} has no column {column}",
                expected=f"one of {names}",
                found=column,
                about=("JOIN", column),
            )
        types.append(type_name)
    if types[0] != types[1] and not set(types) <= set(NUMERIC):
        raise StatementError(
            f"{left.name}.{on[0]} is {types[0]}, {right.name}.{on[1]} {types[1]}: never equal",
            expected=types[0],
            found=types[1],
            about=("JOIN", on[1]),
        )
