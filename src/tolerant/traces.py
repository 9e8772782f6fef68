"""Recorded or generated item values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import ArrayLike, NDArray

_LONG = {"at", "item", "value"}


@dataclass(frozen=True, eq=False)
class Trace:
    """The values of named items over ticks.

    items: the items' names, all different.
    values: float64[ticks, items]; NaN means no reading: the last one still counts. Infinities are refused.

    >>> Trace(["x", "y"], [[1.0, 2.0], [np.nan, 3.0]]).filled().tolist()
    [[1.0, 2.0], [1.0, 3.0]]
    """

    items: tuple[str, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        items = tuple(str(item) for item in self.items)
        values = np.ascontiguousarray(self.values, np.float64)
        if values.ndim != 2 or values.shape[1] != len(items):
            raise ValueError(f"values must have the shape (ticks, {len(items)} items), got {values.shape}")
        if values.size == 0:
            raise ValueError(
                f"a trace needs at least one tick and one item, got {values.shape[0]} and {values.shape[1]}"
            )
        if len(set(items)) < len(items):
            twice = next(item for k, item in enumerate(items) if item in items[:k])
            raise ValueError(f"items must all be different, got {twice!r} twice")
        # Minimum and maximum, because isinf() would allocate an array of the trace's size.
        if np.isinf([np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)]).any():
            tick, column = np.argwhere(np.isinf(values))[0]
            raise ValueError(
                f"values must be finite or NaN, got {values[tick, column]} of {items[column]!r} at tick {tick}"
            )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "values", values)

    @property
    def ticks(self) -> int:
        """The number of ticks."""
        return int(self.values.shape[0])

    def filled(self) -> NDArray[np.float64]:
        """The values with each NaN replaced by the item's last reading (NaN before the first), of the same shape."""
        if not np.isnan(self.values.min()):
            return self.values
        filled = self.values.copy()
        for tick in range(1, self.ticks):
            np.copyto(filled[tick], filled[tick - 1], where=np.isnan(filled[tick]))
        return filled

    @classmethod
    def read(cls, path: str | Path) -> Trace:
        """Read a trace from a .csv or .parquet file.

        Long format: the columns at, item and value, in any order; each distinct `at` is a tick. Wide format: one column
        per item and one row per tick, in the order of the file; a column `at` is ignored. An empty value is no reading.
        """
        table = _table(Path(path))
        try:
            return _from_long(table) if set(table.column_names) == _LONG else _from_wide(table)
        except (ValueError, pa.ArrowException) as error:
            raise ValueError(f"{path}: {error}") from None


def spacing(path: str | Path) -> int | None:
    """Median time between two ticks of a trace file, in microseconds; None if its column `at` has no timestamps."""
    table = _table(Path(path))
    if "at" not in table.column_names or not pa.types.is_temporal(table.schema.field("at").type):
        return None
    times = pc.unique(table["at"].cast(pa.timestamp("us"))).drop_null().to_numpy().astype("datetime64[us]")
    return int(np.median(np.diff(np.sort(times)).astype(np.int64))) if len(times) > 1 else None


def random_walk(items: int | Sequence[str], ticks: int, steps: ArrayLike = 1.0, seed: int = 0) -> Trace:
    """Random walks that start at 0 and go up or down by `steps` per tick; steps: one number, or one per item.

    items: names, or how many (then they are item0, item1, …).

    >>> sorted(abs(random_walk(["x", "y"], ticks=2, steps=[1, 5]).values[1]).tolist())
    [1.0, 5.0]
    """
    names = tuple(f"item{k}" for k in range(items)) if isinstance(items, int | np.integer) else tuple(items)
    if ticks < 1:
        raise ValueError(f"ticks must be at least 1, got {ticks}")
    size = np.asarray(steps, np.float64)
    if size.shape not in ((), (len(names),)) or not np.isfinite(size).all() or (size < 0).any():
        raise ValueError(f"steps must be one number ≥ 0, or one for each of the {len(names)} items, got {steps!r}")
    values = np.zeros((ticks, len(names)))
    up = np.random.default_rng(seed).random((ticks - 1, len(names))) < 0.5
    np.cumsum(np.where(up, size, -size), axis=0, out=values[1:])
    return Trace(names, values)


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path)
    except pa.ArrowException as error:
        raise ValueError(f"{path}: {error}") from None
    raise ValueError(f"{path}: a trace is read from a .csv or a .parquet file, got {path.suffix or 'no suffix'!r}")


def _from_wide(table: pa.Table) -> Trace:
    # By position: `Trace` refuses a name that occurs twice.
    kept = [(k, name) for k, name in enumerate(table.column_names) if name != "at"]
    columns = [_numbers(table.column(k), name) for k, name in kept]
    values = np.column_stack(columns) if columns else np.zeros((table.num_rows, 0))
    return Trace(tuple(name for _, name in kept), values)


def _from_long(table: pa.Table) -> Trace:
    for name in ("at", "item"):
        if table[name].null_count:
            raise ValueError(f"column {name!r} has {table[name].null_count} empty values, expected one in every row")
    ats = table["at"].combine_chunks().dictionary_encode()
    names = pc.cast(table["item"], pa.string()).combine_chunks().dictionary_encode()
    tick = np.argsort(pc.array_sort_indices(ats.dictionary).to_numpy())[ats.indices.to_numpy()]
    item = names.indices.to_numpy()
    values = np.full((len(ats.dictionary), len(names.dictionary)), np.nan)
    cells = tick * values.shape[1] + item
    if len(np.unique(cells)) < len(cells):
        order = np.argsort(cells, kind="stable")
        again = order[1:][np.diff(cells[order]) == 0].min()
        raise ValueError(f"row {again + 1}: item {table['item'][again]} has a value at {table['at'][again]} already")
    values[tick, item] = _numbers(table["value"], "value")
    return Trace(tuple(names.dictionary.to_pylist()), values)


def _numbers(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    kind = column.type
    if not (
        pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        raise ValueError(f"column {name!r} must hold numbers, got {kind}")
    numbers: NDArray[np.float64] = pc.cast(column, pa.float64()).to_numpy()
    return numbers
