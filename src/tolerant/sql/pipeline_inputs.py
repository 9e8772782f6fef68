"""What the pipelines over tables are fed by: two tables, two that only grow, or those of views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from tolerant.sql.join_spreads import Ranges
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.select import Select
from tolerant.sql.statements import CreateTable


@dataclass(frozen=True)
class JoinInput:
    """Two tables with queries over both: one pipeline serves all of these, whichever table they name first.

    `tables` are in the order of their names. Queries with several shards have a pipeline of their own: one for what
    rows are joined on, with these columns, in the order of the tables, in `on`; or one for all band joins that are
    spread by subscriptions. Band joins that are spread by ranges have `ranges` too. See `PipelineId`.
    """

    append_only: ClassVar[bool] = False

    tables: tuple[CreateTable, CreateTable]
    shards: int = 1
    partitioning: str = ""
    on: tuple[str, str] = field(default=("", ""), compare=False)
    ranges: Ranges | None = field(default=None, compare=False)

    @classmethod
    def of(cls, first: CreateTable, second: CreateTable) -> Self:
        """The input of two tables, given in any order."""
        return cls((first, second) if first.name < second.name else (second, first))

    @property
    def id(self) -> PipelineId:
        """The id of its pipeline."""
        names = (self.tables[0].name, self.tables[1].name)
        return PipelineId(names, self.append_only, shards=self.shards, partitioning=self.partitioning)

    @property
    def name(self) -> str:
        """The id of its pipeline as text."""
        return str(self.id)

    @property
    def by_value(self) -> bool:
        """Whether each row belongs to some of several shards, by what it is joined on."""
        return self.id.by_value


class AppendOnlyJoinInput(JoinInput):
    """Two tables that only grow, with queries that keep some of their rows (`KEEP n ROWS`).

    It has a pipeline of its own beside the one that holds every row.
    """

    append_only: ClassVar[bool] = True


@dataclass(frozen=True)
class Views:
    """One or more tables with views over exactly these, in the order of their names: one pipeline serves them all."""

    tables: tuple[CreateTable, ...]

    @property
    def id(self) -> PipelineId:
        """The id of its pipeline."""
        return PipelineId(tuple(sorted(table.name for table in self.tables)), views=True)

    @property
    def name(self) -> str:
        """The id of its pipeline as text."""
        return str(self.id)


def join_input(pipeline: PipelineId, tables: Sequence[CreateTable], select: Select | None = None) -> JoinInput:
    """The input of a pipeline over these two tables; `select`: that of a query which runs there."""
    kind = AppendOnlyJoinInput if pipeline.append_only else JoinInput
    on, ranges = (("", ""), None) if select is None else (select.compared, select.spread_ranges)
    return kind(kind.of(*tables).tables, pipeline.shards, pipeline.partitioning, on, ranges)
