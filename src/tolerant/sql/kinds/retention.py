"""Retention: a join of two tables that only grow, or of one that grows with one that is looked up in its file, with
memory for n rows; `KEEP n ROWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.joins import check_joined
from tolerant.sql.kinds.kind import Kind, allow_clauses, sides
from tolerant.sql.kinds.shards import check_shards, shards_of
from tolerant.sql.shape import Shape
from tolerant.sql.statements import CreateQuery, CreateTable, KeepJoinSelect, Select

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

MOST_ROWS = 1 << 40
"""Rows that a join can be told to keep: more than any memory has room for."""

_WHOLE = ("INT", "BIGINT")


def _recognise(shape: Shape) -> Select | None:
    if shape.clauses.keep is None:
        return None
    allow_clauses(shape, ("keep", "with"), "a join with KEEP")
    plain = shape.star and not (shape.distinct or shape.group_by or shape.aggregates or shape.bands or shape.where)
    if not plain or len(shape.relations) != 2 or len(shape.equalities) != 1:
        raise StatementError(
            "KEEP belongs to SELECT * from a join of two tables on equality of a column of each",
            expected="SELECT * FROM r JOIN s ON r.b = s.b KEEP n ROWS",
            found="another select",
            span=shape.clauses.spans.get("keep"),
        )
    left, right = shape.relations
    on = sides(shape, shape.equalities[0].left, shape.equalities[0].right)
    return KeepJoinSelect(left, right, on, shape.clauses.keep, shards=shards_of(shape))


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, KeepJoinSelect)


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    select = query.select
    assert isinstance(select, KeepJoinSelect)
    left, right = catalogue.table(select.left), catalogue.table(select.right)
    check_shards(select.shards)
    if left.name == right.name:
        raise StatementError(f"{left.name} is joined with itself", found=left.name, about=("JOIN", left.name))
    if not 1 <= select.rows <= MOST_ROWS:
        raise StatementError(f"KEEP takes a whole number of rows from 1 to {MOST_ROWS:,}", about=("KEEP",))
    check_joined(select.on, left, right)
    place = looked_up(select, left, right)
    if place is not None:
        _check_looked_up(select, (left, right), place)


def looked_up(select: KeepJoinSelect, left: CreateTable, right: CreateTable) -> int | None:
    """Which of the tables (0: left, 1: right) is looked up: the one with a file, joined on its key, where the other has
    none; None: both grow.
    """
    both = (left, right)
    files = [place for place, table in enumerate(both) if table.uri is not None]
    is_keyed = len(files) == 1 and both[files[0]].key == (select.on[files[0]],)
    return files[0] if is_keyed else None


def _check_looked_up(select: KeepJoinSelect, tables: tuple[CreateTable, CreateTable], place: int) -> None:
    """Raise StatementError unless values of the growing table's column are keys of the other as they are."""
    types = [table.type_of(column) for table, column in zip(tables, select.on, strict=True)]
    if types[0] != types[1] and not set(types) <= set(_WHOLE):
        key, table = f"{tables[place].name}.{select.on[place]}", tables[1 - place]
        raise StatementError(
            f"rows are looked up by {key}, which is {types[place]}; {table.name}.{select.on[1 - place]} is"
            f" {types[1 - place]}",
            expected=str(types[place]),
            found=str(types[1 - place]),
            hint="declare both columns with one type",
            about=("JOIN", select.on[1 - place]),
        )


KIND = Kind("retention", "joins with memory for some rows", True, _covers, _recognise, _check)
