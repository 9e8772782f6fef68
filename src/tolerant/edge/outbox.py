"""Rows of a source that are not yet appended to the log, in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.versions import version
from tolerant.transport.rows import TimedRange, updates_batch


class _OutgoingRows(NamedTuple):
    kind: str
    handles: NDArray[np.int64]
    at: int
    values: NDArray[np.float64]
    grants: NDArray[np.int64]
    slopes: NDArray[np.float64]
    reports: NDArray[np.void] | None
    histories: list[list[TimedRange] | None] | None


class Outbox:
    """Collects rows of one source and epoch, and numbers them; `drain` returns them as one batch."""

    def __init__(self, source: str, epoch: int) -> None:
        self._source = source
        self._epoch = epoch
        self._next = 1
        self._size = 0
        self._rows: list[_OutgoingRows] = []

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
        histories: list[list[TimedRange] | None] | None = None,
    ) -> None:
        """Add rows of one kind and event time; the arrays are kept, not copied. A handle of −1 stands for no item.
        `histories`: the reported history of each item.
        """
        slopes = np.zeros(len(handles)) if slopes is None else slopes
        self._rows.append(_OutgoingRows(kind, handles, at, values, grants, slopes, reports, histories))
        self._size += len(handles)

    def drain(self, keys: list[str], clock: int) -> pa.RecordBatch:
        """Remove and return all rows as one batch; `keys` names the handles, and everything up to `clock` has been
        offered.

        A row's `through` is one microsecond before the next row's `at`, so that it is true of each row alone; the
        last row's is `clock`.
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
            ways=_histories(rows),
        )


def _histories(rows: list[_OutgoingRows]) -> list[list[TimedRange] | None] | None:
    """Return the reported history of each row, None for rows without; None if no row has one."""
    if not any(row.histories is not None and any(row.histories) for row in rows):
        return None
    return [history for row in rows for history in (row.histories or [None] * len(row.handles))]


def _reports(rows: list[_OutgoingRows]) -> list[bytes | None] | None:
    """Return the report of each row, None for rows without; None if no row has one."""
    if all(row.reports is None for row in rows):
        return None
    reports: list[bytes | None] = []
    for row in rows:
        if row.reports is None:
            reports += [None] * len(row.handles)
        else:
            reports += [report.tobytes() if report["unit"] > 0 else None for report in row.reports]
    return reports
