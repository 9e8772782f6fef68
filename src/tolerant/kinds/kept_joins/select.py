"""`KEEP n ROWS`: a join of two tables that only grow, or of one that grows with one that is looked up in its file, with
memory for n rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tolerant.kinds.joins.select import JoinSelect, check_joined, equality_text
from tolerant.kinds.joins.spread_options import check_shards, shards_of, spread_text
from tolerant.kinds.kept_joins.lookup_files import digest_of
from tolerant.sql.errors import StatementError
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.shape import Shape, allow_clauses, sides
from tolerant.sql.statements import CreateQuery, CreateTable

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

MOST_ROWS = 1 << 40
"""Rows that a join can be told to keep: more than any memory has room for."""

_WHOLE = ("INT", "BIGINT")


@dataclass(frozen=True)
class KeepJoinSelect(JoinSelect):
    """`left JOIN right ON left.a = right.b KEEP rows ROWS`.

    `file`: where one of the tables is looked up in its file (`tolerant.kinds.kept_joins.lookup_files`), what the file
    held when the query was created: a digest of it; None until `tolerant.sql.with_files` has read it. `shards`: over
    how many the rows that are kept are spread, by what they are joined on; `WITH (shards = n)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    rows: int
    file: str | None = None
    shards: int = 1

    @property
    def pipeline(self) -> PipelineId:
        """One of its own, beside the one that holds every row of the tables."""
        return replace(super().pipeline, append_only=True)

    @property
    def kept_rows(self) -> int:
        """`JoinSelect.kept_rows`."""
        return self.rows

    @property
    def file_digest(self) -> str | None:
        """`Select.file_digest`."""
        return self.file

    def without_files(self) -> Self:
        """The select without its digest of a file."""
        return replace(self, file=None)

    def with_files(self, catalogue: Catalogue, base_dir: Path) -> Self:
        """The select with a digest of the file that it looks rows up in."""
        table = self.lookup_table(catalogue)
        return self if table is None else replace(self, file=digest_of(base_dir / str(table.uri)))

    def missing_file(self, tables: dict[str, CreateTable]) -> str:
        """`Select.missing_file`."""
        if self.file is not None or self.looked_up(tables[self.left], tables[self.right]) is None:
            return ""
        return "the digest of the file is missing: the sender fills it in with with_files"

    def looked_up(self, left: CreateTable, right: CreateTable) -> int | None:
        """Which of the tables (0: left, 1: right) is looked up: the one with a file, joined on its key, where the other
        has none; None: both grow.
        """
        both = (left, right)
        files = [place for place, table in enumerate(both) if table.uri is not None]
        is_keyed = len(files) == 1 and both[files[0]].key == (self.on[files[0]],)
        return files[0] if is_keyed else None

    def lookup_table(self, catalogue: Catalogue) -> CreateTable | None:
        """The table that rows are looked up in, if there is one."""
        left, right = catalogue.tables.get(self.left), catalogue.tables.get(self.right)
        if left is None or right is None:
            return None
        place = self.looked_up(left, right)
        return None if place is None else (left, right)[place]

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        return f"{equality_text(self)} KEEP {self.rows} ROWS{spread_text(self.shards)}"


def recognise(shape: Shape) -> KeepJoinSelect | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
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


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    select = KeepJoinSelect.of(query)
    left, right = catalogue.table(select.left), catalogue.table(select.right)
    check_shards(select.shards)
    if left.name == right.name:
        raise StatementError(f"{left.name} is joined with itself", found=left.name, about=("JOIN", left.name))
    if not 1 <= select.rows <= MOST_ROWS:
        raise StatementError(f"KEEP takes a whole number of rows from 1 to {MOST_ROWS:,}", about=("KEEP",))
    check_joined(select.on, left, right)
    place = select.looked_up(left, right)
    if place is not None:
        _check_looked_up(select, (left, right), place)


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
