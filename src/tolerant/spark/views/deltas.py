"""A table's changes as append-only Parquet files, by version: the step at which each change applied.

A row has the table's columns, `VERSION` and `WEIGHT` (1: it came, -1: it went); the table at version v is the sum of
all rows up to v. A file holds a range of versions, which its name says. Files are written once, under another name
first, so that one that is there is whole; what a crash left behind is written again just so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tolerant.relations import Changes
from tolerant.sql.view_select import WEIGHT
from tolerant.streams import Column
from tolerant.transport.changes import ARROW

VERSION = "tolerant_version"
MOST_FILES = 12
"""More small files than this are made one."""


@dataclass(frozen=True)
class Slice:
    """The changes of a table after version `low` up to `high`, in these files; `columns` has those that are wanted.

    `whole`: the files have no other changes, so a read need not compare versions. Versions differ at every push, and
    Spark would compile the same program again for each.
    """

    files: tuple[Path, ...]
    low: int
    high: int
    columns: tuple[Column, ...]
    whole: bool = False

    def read(self) -> pa.Table:
        """The rows, with their versions."""
        schema = signed_schema(self.columns)
        parts = [pq.read_table(path, columns=schema.names).select(schema.names).cast(schema) for path in self.files]
        rows = pa.concat_tables([schema.empty_table(), *parts])
        if self.whole:
            return rows
        versions = rows.column(VERSION)
        return rows.filter(pc.and_(pc.greater(versions, self.low), pc.less_equal(versions, self.high)))


def signed_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of a delta log's files."""
    own = [(column.name, ARROW[column.type]) for column in columns]
    return pa.schema([(VERSION, pa.int64()), (WEIGHT, pa.int64()), *own])


def signed_rows(columns: Sequence[Column], changes: Changes, steps: NDArray[np.int64]) -> pa.Table:
    """Changes as rows of a delta log."""
    own = [pa.array(changes.columns[column.name], ARROW[column.type]) for column in columns]
    weights = np.where(changes.insert, 1, -1).astype(np.int64)
    return pa.table([pa.array(steps), pa.array(weights), *own], schema=signed_schema(columns))


def netted(rows: pa.Table) -> pa.Table:
    """Rows with what came and went again left out: equal ones are one, with the sum of their weights."""
    names = [name for name in rows.column_names if name not in (WEIGHT, VERSION)]
    if not names:
        total = pc.sum(rows.column(WEIGHT)).as_py() or 0
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    summed = rows.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*names, WEIGHT]) if summed.column_names[-1] != WEIGHT else summed
    return summed.filter(pc.not_equal(summed.column(WEIGHT), 0))


def blank_row(schema: pa.Schema) -> pa.Table:
    """A row that stands for those of a table that has none, when a push is practised."""
    blank = {pa.string(): "", pa.bool_(): False}
    values: dict[str, list[object]] = {field.name: [blank.get(field.type, 0)] for field in schema}
    return pa.table(values | {WEIGHT: [1]}, schema=schema)


class DeltaLog:
    """The changes of one table in a folder; those that are not yet in a file wait in memory (`take`, `flush`)."""

    def __init__(self, folder: Path, columns: tuple[Column, ...]) -> None:
        self._folder, self.columns = folder, columns
        folder.mkdir(parents=True, exist_ok=True)
        self._files = _standing(folder)
        self._waiting: list[pa.Table] = []
        self.flushed = self._files[-1][1] if self._files else 0
        self.last = self.flushed

    def take(self, changes: Changes, steps: NDArray[np.int64]) -> None:
        """Take changes in their order; those that stand in a file already are left out."""
        new = steps > self.flushed
        if new.any():
            self.add(signed_rows(self.columns, changes.take(new), steps[new]))

    def add(self, rows: pa.Table) -> None:
        """Take signed rows in the order of their versions, which come after all before."""
        self._waiting.append(rows)
        self.last = rows.column(VERSION)[-1].as_py()

    def flush(self) -> None:
        """Write what waits; it survives a crash when this returns."""
        if self._waiting:
            rows, self._waiting = pa.concat_tables(self._waiting), []
            self._files.append((self.flushed, self.last, self._write(rows, self.flushed, self.last)))
            self.flushed = self.last

    def slice(self, low: int, high: int, names: Sequence[str]) -> Slice:
        """The changes after `low` up to `high`, which must have been flushed."""
        covering = [(first, last, path) for first, last, path in self._files if last > low and first < high]
        whole = all(first >= low and last <= high for first, last, _ in covering)
        columns = tuple(column for column in self.columns if column.name in names)
        return Slice(tuple(path for _, _, path in covering), low, high, columns, whole)

    def read(self, low: int, high: int, names: Sequence[str]) -> pa.Table:
        """The same as a table."""
        return self.slice(low, high, names).read()

    def compact(self, below: int) -> None:
        """Make one file of many, without what came and went again up to version `below`, which nobody asks before."""
        ready = [file for file in self._files if file[1] <= below]
        if len(ready) <= MOST_FILES:
            return
        # The large file at the front is only rewritten when as much has come behind it as it holds itself.
        sizes = [path.stat().st_size for _, _, path in ready]
        start = 0 if sum(sizes[1:]) >= sizes[0] else 1
        if len(ready) - start < 2:
            return  # a file written again would have the name of the old one, which is removed
        first, last = ready[start][0], ready[-1][1]
        rows = self.read(first, last, [column.name for column in self.columns])
        if start == 0:
            rows = netted(rows)
            rows = rows.append_column(VERSION, pa.array(np.full(len(rows), last), pa.int64()))
        path = self._write(rows.select(signed_schema(self.columns).names), first, last)
        for _, _, old in ready[start:]:
            old.unlink(missing_ok=True)
        self._files = [*self._files[:start], (first, last, path), *self._files[len(ready) :]]

    def _write(self, rows: pa.Table, first: int, last: int) -> Path:
        path = self._folder / f"{first:020d}-{last:020d}.parquet"
        scratch = path.with_suffix(".writing")
        pq.write_table(rows, scratch)
        with open(scratch, "rb") as written:
            os.fsync(written.fileno())
        scratch.rename(path)
        return path


def _standing(folder: Path) -> list[tuple[int, int, Path]]:
    """The files of a folder by their versions; those that a larger one has taken the place of are removed."""
    files: list[tuple[int, int, Path]] = []
    for path in sorted(folder.glob("*.parquet")):
        first, last = map(int, path.stem.split("-"))
        files.append((first, last, path))
    kept: list[tuple[int, int, Path]] = []
    for file in sorted(files, key=lambda file: (file[0], -file[1])):
        if kept and file[1] <= kept[-1][1]:
            file[2].unlink(missing_ok=True)
        else:
            kept.append(file)
    return kept
