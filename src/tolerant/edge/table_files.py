"""Loads a table from a file: `CREATE TABLE … FROM 'file'`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tolerant.edge.table import Table
from tolerant.sql import CreateTable
from tolerant.sql.typed_files import TypedFile
from tolerant.transport import Log
from tolerant.transport.changes import key_texts
from tolerant.transport.deliveries import lookup_batch
from tolerant.transport.topics import lookup_topic


@dataclass(frozen=True)
class Loaded:
    """How many rows of a file were inserted and how many refused; the first refusals as (row, reason), rows counted
    from 1 below the header.
    """

    inserted: int
    refused: int
    reasons: tuple[tuple[int, str], ...]


def load_table(
    log: str | Log, table: CreateTable, path: Path | str, *, clock: Callable[[], int] | None = None
) -> Loaded:
    """Insert the rows of a CSV file with a header or a Parquet file; return when they are in the log.

    Columns are matched by name. Rows that cannot be used are refused, the others inserted; of rows with equal keys the
    last counts. Memory holds some 65,536 rows, whatever the size of the file. Loading again changes only what differs.
    `clock` as for `Table`.

    Raises:
        StatementError: the file cannot be read, or lacks a column; the rows before the fault have been inserted.
        SourceError: the log could not be used for 30 s.
    """
    file = TypedFile(path, {column.name: column.type for column in table.columns})
    with Table(table, log, f"file/{Path(path).name}", clock=clock) as rows:
        for columns in file:
            rows.insert_many(columns)
            rows.flush()  # or the whole file would wait in memory
    return Loaded(file.accepted, file.refused, tuple(file.reasons))


def load_lookup(log: Log, table: CreateTable, path: Path | str, digest: str) -> Loaded:
    """Append the rows of a file to its lookup topic, under the digest of the file; return when they are in the log.

    Otherwise like `load_table`; loading again changes nothing.
    """
    file = TypedFile(path, {column.name: column.type for column in table.columns})
    for columns in file:
        keys = key_texts([columns[name] for name in table.key])
        log.append(lookup_topic(table.name, digest), lookup_batch(table.columns, keys, columns))
    return Loaded(file.accepted, file.refused, tuple(file.reasons))
