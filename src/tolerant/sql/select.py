"""What a query selects: the base of the selects of all kinds, and the parts that several of them have."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.predicates import Operand, Predicate

if TYPE_CHECKING:
    from pathlib import Path

    from tolerant.sql.catalogue import Catalogue
    from tolerant.sql.join_spreads import Ranges
    from tolerant.sql.statements import AggregateSelect, CreateQuery, CreateTable, Tables


@dataclass(frozen=True)
class Range:
    """`column BETWEEN low AND high`, each end a number or a parameter."""

    column: str
    low: Operand
    high: Operand


class Select(ABC):
    """What a query selects; each kind of query has a frozen dataclass of its own, with what differs.

    What a select says about itself here is all that is asked of a query outside its kind: nothing else tells one class
    of selects from another.
    """

    @classmethod
    def of(cls, query: CreateQuery) -> Self:
        """The select of a query that is known to have one of this class.

        Raises:
            TypeError: it has another.
        """
        select = cls.matching(query)
        if select is None:
            raise TypeError(f"query {query.name} has a {type(query.select).__name__}, not a {cls.__name__}")
        return select

    @classmethod
    def matching(cls, query: CreateQuery | None) -> Self | None:
        """The select of a query if it is of this class; None: it is another, or there is no query."""
        return query.select if query is not None and isinstance(query.select, cls) else None

    @property
    @abstractmethod
    def relations(self) -> tuple[str, ...]:
        """The streams and tables that it reads, in the order in which it names them."""

    @abstractmethod
    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """The select and its clauses as SQL; columns with the name of a parameter go behind their table's name."""

    @property
    def aggregate(self) -> AggregateSelect | None:
        """The select itself if it is an aggregate over a stream, WITHIN a tolerance; else None."""
        return None

    @property
    def conditions(self) -> tuple[Predicate | None, ...]:
        """Its conditions, of whatever nesting."""
        return ()

    @property
    def pipeline(self) -> PipelineId:
        """The pipeline that a query with this select runs in."""
        return PipelineId(tuple(sorted(self.relations)))

    @property
    def compared(self) -> tuple[str, str]:
        """The columns that a join compares, in the order of the names of their tables; empty names: it is no join."""
        return ("", "")

    @property
    def spread_ranges(self) -> Ranges | None:
        """The ranges by which its rows are spread over shards; None: by their values, or not at all."""
        return None

    # -- what a statement can change ---------------------------------------------------------------------------------

    @property
    def tolerance(self) -> float | None:
        """What `ALTER QUERY … WITHIN` changes; None: it has none."""
        return None

    def with_tolerance(self, within: float) -> Self:
        """The select with this tolerance, if it has one."""
        return self

    # -- what its sender reads from files ----------------------------------------------------------------------------

    FILE_CONTENT = "rows in the file"
    """What the file is read for, as errors name it."""

    def without_files(self) -> Self:
        """The select without what its sender has read from files."""
        return self

    def with_files(self, catalogue: Catalogue, base_dir: Path) -> Self:
        """The select with what its sender reads from files, whose paths start at `base_dir`.

        Raises:
            StatementError: a file cannot be used.
        """
        return self

    def missing_file(self, tables: dict[str, CreateTable]) -> str:
        """What its sender still has to read from a file, as a sentence; nothing: all is there."""
        return ""

    @property
    def file_digest(self) -> str | None:
        """What the file held in which it looks rows up, as a digest; None: it looks none up, or it is not read yet."""
        return None

    # -- what subscriptions select by --------------------------------------------------------------------------------

    @property
    def selected_ranges(self) -> tuple[Range, ...] | None:
        """The ranges whose ends can be parameters; None: it selects by something else."""
        return ()

    def range_types(self, tables: Tables) -> list[str | None]:
        """The SQL type of what each of these ranges is of; a difference is a number of floating point."""
        return []

    @property
    def reach(self) -> float:
        """How far the ends of its ranges may be from 0."""
        return math.inf

    @property
    def compares_exactly(self) -> bool:
        """Whether ranges of integers are compared as integers: else as 64-bit floats, which cannot tell all apart."""
        return False


@dataclass(frozen=True)
class Tally:
    """`(SELECT fn(column) FROM table WHERE …)`: a number that is kept of a table; `column` None: `COUNT(*)`."""

    table: str
    fn: Literal["count", "sum", "avg"]
    column: str | None = None
    where: Predicate | None = None


@dataclass(frozen=True)
class Trigger:
    """`WHEN condition`: what has to become true for a view to be brought up to date unasked.

    `condition` is on columns "0", "1", …: the tallies, by their places.
    """

    tallies: tuple[Tally, ...]
    condition: Predicate
