"""The rows that a source has said and not yet appended, in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.versions import version
from tolerant.transport.rows import Piece, updates_batch


class _Rows(NamedTuple):
    kind: str
    handles: NDArray[np.int64]
    at: int
    values: NDArray[np.float64]
    grants: NDArray[np.int64]
    slopes: NDArray[np.float64]
    reports: NDArray[np.void] | None
    ways: list[list[Piece] | None] | None


class Outbox:
    """Collects rows of one source and epoch, and numbers them; `take` makes them one batch."""

    def __init__(self, source: str, epoch: int) -> None:
        self._source = source
        self._epoch = epoch
        self._next = 1
        self._size = 0
        self._rows: list[_Rows] = []

    def __len__(self) -> int:
        return self._size

    def add(
        self,
        kind: str,
        handles: NDArray[np.int64],
        at: int,
        values: NDArray[np.float64],
        grants: NDArray[np.int64],
        slopes: NDArray[np.float64] | None = None,
        reports: NDArray[np.void] | None = None,
        ways: list[list[Piece] | None] | None = None,
    ) -> None:
        """Say rows of one kind and moment; the arrays are kept. A handle of −1 stands for no item. `ways`: where the
        items have been lately.
        """
        slopes = np.zeros(len(handles)) if slopes is None else slopes
        self._rows.append(_Rows(kind, handles, at, values, grants, slopes, reports, ways))
        self._size += len(handles)

    def take(self, keys: list[str], clock: int) -> pa.RecordBatch:
        """All rows as one batch; `keys` names the handles, and everything up to `clock` has been offered.

        A row's `through` is the moment before the next row's `at`, so that it is true of each row alone; the last
        one's is `clock`.
        """
        rows, self._rows = self._rows, []
        size, self._size = self._size, 0
        sizes = [len(row.handles) for row in rows]
        at = np.repeat(np.array([row.at for row in rows], np.int64), sizes)
        first = version(self._epoch, self._next)
        self._next += size
        return updates_batch(
            kind=[row.kind for row, count in zip(rows, sizes, strict=True) for _ in range(count)],
            keys=[keys[handle] if handle >= 0 else "" for row in rows for handle in row.handles.tolist()],
            at=at,
            source=self._source,
            sequence=np.arange(first, first + size),
            through=np.append(at[1:] - 1, clock),
            value=np.concatenate([row.values for row in rows]),
            grant=np.concatenate([row.grants for row in rows]),
            slope=np.concatenate([row.slopes for row in rows]),
            report=_reports(rows),
            ways=_ways(rows),
        )


def _ways(rows: list[_Rows]) -> list[list[Piece] | None] | None:
    """Where each row's item has been, None where nothing is said of that; None: nothing is said of any."""
    if not any(row.ways is not None and any(row.ways) for row in rows):
        return None
    return [way for row in rows for way in (row.ways or [None] * len(row.handles))]


def _reports(rows: list[_Rows]) -> list[bytes | None] | None:
    """A report for each row, None where there is none."""
    if all(row.reports is None for row in rows):
        return None
    found: list[bytes | None] = []
    for row in rows:
        if row.reports is None:
            found += [None] * len(row.handles)
        else:
            found += [one.tobytes() if one["unit"] > 0 else None for one in row.reports]
    return found
