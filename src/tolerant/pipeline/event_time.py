"""Event time in a shard: clocks, the watermark, rows that wait for it, rows that came too late or from the future.

Time is rows in the log (`docs/design/pipeline.md` §3), so all of this is a function of the log: nothing here reads a
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.pipeline.delay_histogram import Delays
from tolerant.pipeline.intake import ROW


def in_order(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """The order (at, item, sequence) of rows, as indices."""
    if not len(rows):
        return np.zeros(0, np.int64)
    at, item = rows["at"].copy(), rows["item"].copy()
    first, items = int(at.min()), int(item.max()) + 2
    if (int(at.max()) - first + 1) * items < 2**62:
        # One number for moment and item sorts several times as fast, and rows of one item and moment are rare.
        both = (at - first) * items + item + 1
        order = np.argsort(both)
        both = both[order]
        if not (both[1:] == both[:-1]).any():
            return order
    return np.lexsort((rows["sequence"], item, at))


class EventTimeBuffer:
    """The clocks of the partitions read, and the rows whose time has not come. Durations in microseconds.

    `watermark`: everything up to it has arrived, as far as is promised; None before every partition has shown a clock
    row.
    `percentile`: wait for so many percent of the rows, by the delays seen, instead of `latency`; 0: do not.
    """

    def __init__(self, latency: int, lease: int, partitions: int = 1, percentile: float = 0.0) -> None:
        self._latency, self._lease, self._partitions = latency, lease, partitions
        self._percentile = percentile
        self._delays = Delays()
        self.watermark: int | None = None
        self._clocks: dict[int, int] = {}
        self._arrived: dict[int, list[NDArray[np.void]]] = {}
        self._waiting: list[NDArray[np.void]] = []

    def is_late(self, rows: NDArray[np.void]) -> NDArray[np.bool_]:
        """Which rows came after a clock row that is a latency or more ahead of them."""
        if self.watermark is None:
            return np.zeros(len(rows), np.bool_)
        late: NDArray[np.bool_] = rows["at"] <= self.watermark
        return late

    @property
    def latency(self) -> int:
        """How long rows are waited for now."""
        seen = self._delays.percentile(self._percentile) if self._percentile else None
        return self._latency if seen is None else min(seen, self._lease)

    def note_delays(self, rows: NDArray[np.void], partition: int) -> None:
        """Rows have come, late or not; how late they are goes by the newest clock row, as lateness does."""
        if self._percentile and partition in self._clocks:
            self._delays.note(np.maximum(self._clocks[partition] - rows["at"], 0))

    def wait(self, rows: NDArray[np.void], partition: int) -> None:
        """Keep rows until their time comes."""
        if len(rows):
            self._arrived.setdefault(partition, []).append(rows)

    def tick(self, at: int, partition: int) -> NDArray[np.void]:
        """A clock row: time passes. Returns the rows that were more than a lease ahead of it, which will never be
        used.
        """
        arrived = self._arrived.pop(partition, [])
        ahead = [rows["at"] > at + self._lease for rows in arrived]
        future = [rows[early] for rows, early in zip(arrived, ahead, strict=True) if early.any()]
        self._waiting += [rows if not early.any() else rows[~early] for rows, early in zip(arrived, ahead, strict=True)]
        self._clocks[partition] = max(self._clocks.get(partition, at), at)
        if len(self._clocks) == self._partitions:
            watermark = min(self._clocks.values()) - self.latency
            self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)
        return np.concatenate(future) if future else np.zeros(0, ROW)

    def due(self) -> NDArray[np.void]:
        """The waiting rows whose time has come, in the order (at, item, sequence)."""
        if self.watermark is None or not self._waiting:
            return np.zeros(0, ROW)
        rows = np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        ready = rows["at"] <= self.watermark
        if ready.all():
            self._waiting = []
            return rows[in_order(rows)]
        self._waiting = [rows[~ready]]
        due = rows[ready]
        return due[in_order(due)]

    def waiting(self) -> NDArray[np.void]:
        """The rows that a clock row has passed and whose time has not come, in no order."""
        return np.concatenate([np.zeros(0, ROW), *self._waiting])

    def waiting_items(self) -> NDArray[np.int64]:
        """The items that rows still wait for."""
        parts = [*self._waiting, *(rows for chunks in self._arrived.values() for rows in chunks)]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(rows["item"] for rows in parts)]))

    def all_waiting(self) -> NDArray[np.void]:
        """The rows whose time has not come, those that no clock row has passed among them."""
        arrived = (rows for chunks in self._arrived.values() for rows in chunks)
        return np.concatenate([np.zeros(0, ROW), *self._waiting, *arrived])

    def drop(self, is_dropped: Callable[[NDArray[np.void]], NDArray[np.bool_]]) -> NDArray[np.void]:
        """Remove some of the rows whose time has not come, and return them."""
        everything = self.all_waiting()
        dropped = everything[is_dropped(everything)]
        self._waiting = [rows[~is_dropped(rows)] for rows in self._waiting]
        self._arrived = {
            partition: [rows[~is_dropped(rows)] for rows in chunks] for partition, chunks in self._arrived.items()
        }
        return dropped

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values; `load` takes it back."""
        arrays: dict[str, NDArray[Any]] = {}
        waiting = np.concatenate([np.zeros(0, ROW), *self._waiting])
        arrived = [(partition, rows) for partition, chunks in self._arrived.items() for rows in chunks]
        for number, rows in enumerate([waiting, *(rows for _, rows in arrived)]):
            arrays[f"rows.{number}"] = rows.view(np.uint8)
        arrays["delays"] = self._delays.counts.copy()
        partitions = [partition for partition, _ in arrived]
        return arrays, [self.watermark, list(self._clocks.items()), partitions]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Become what `state` said."""
        self.watermark, clocks, partitions = values
        self._clocks = {int(partition): int(at) for partition, at in clocks}
        self._waiting = [arrays["rows.0"].view(ROW)]
        self._delays = Delays(arrays["delays"])
        self._arrived = {}
        for number, partition in enumerate(partitions, 1):
            self._arrived.setdefault(int(partition), []).append(arrays[f"rows.{number}"].view(ROW))
