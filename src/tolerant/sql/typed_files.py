"""Files of typed columns, CSV with a header or Parquet, read piece by piece: bad rows are told by their number.

Memory holds one piece, whatever the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tolerant.sql.errors import StatementError
from tolerant.sql.types import is_value
from tolerant.transport.changes import ARROW

PIECE = 65_536
"""Rows that are read at once, at most."""

LISTED = 20
"""Rows that are refused with their reason; the others are counted."""

_BLOCK = 1 << 22  # bytes of a CSV file
_TRUTH = {"true": True, "false": False}

Columns: TypeAlias = dict[str, pa.Array]
"""Column → values, all as long."""

Check: TypeAlias = Callable[[Columns], Iterable[tuple[NDArray[np.bool_], Callable[[int], str]]]]
"""Which rows of a piece are bad besides, and why: flags, and the reason for a row of the piece."""


class TypedFile:
    """Rows of a file as typed columns. `types`: the columns to read, name → SQL type; others in the file are left out.

    Iterating gives the good rows, a piece at a time; afterwards `accepted` and `refused` say how many there were, and
    `reasons` has (row, reason) for the first bad ones, the rows counted from 1 below the header. A value that is
    missing or of another type is bad, NaN too, and an infinity unless `infinite`; `check` may find more.

    Raises:
        StatementError: when iterating, the file cannot be read, or a column is missing or of another sort altogether.
    """

    def __init__(
        self, path: Path | str, types: Mapping[str, str], *, infinite: bool = False, check: Check | None = None
    ) -> None:
        self.path = Path(path)
        self.accepted = 0
        self.refused = 0
        self.reasons: list[tuple[int, str]] = []
        self._types = dict(types)
        self._infinite = infinite
        self._check = check

    def __iter__(self) -> Iterator[Columns]:
        name = self.path.name
        try:
            pieces = self._parquet() if self.path.suffix.lower() == ".parquet" else self._csv()
            for numbers, raw in pieces:
                good = self._good(numbers, raw)
                if len(next(iter(good.values()))):
                    yield good
        except FileNotFoundError:
            raise StatementError(
                f"there is no file {name}", expected="a file", found=f"nothing at {self.path}"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise StatementError(f"{name} cannot be read: {error!s:.200}", found=name) from None

    def _parquet(self) -> Iterator[tuple[NDArray[np.int64], Columns]]:
        with parquet.ParquetFile(self.path) as file:
            self._find(file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(PIECE, columns=list(self._types)):
                yield np.arange(first, first + batch.num_rows), {name: batch.column(name) for name in self._types}
                first += batch.num_rows

    def _csv(self) -> Iterator[tuple[NDArray[np.int64], Columns]]:
        numbers = _Numbers(self._skip)
        # Threads would hand rows that do not fit to the handler without their numbers.
        reading = csv.ReadOptions(block_size=_BLOCK, use_threads=False)
        parsing = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=numbers.skip)
        for_header = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip")
        with csv.open_csv(self.path, reading, for_header) as file:
            self._find(file.schema.names)
        # As text: our own reading names the row that is wrong, and takes no 007 for 7 where the column is STRING.
        as_text = csv.ConvertOptions(
            include_columns=list(self._types),
            column_types=dict.fromkeys(self._types, pa.string()),
            strings_can_be_null=False,
        )
        with csv.open_csv(self.path, reading, parsing, as_text) as file:
            for block in file:
                for start in range(0, block.num_rows, PIECE):
                    batch = block.slice(start, PIECE)
                    yield numbers.next(batch.num_rows), {name: batch.column(name) for name in self._types}

    def _find(self, names: list[str]) -> None:
        for name in self._types:
            if names.count(name) != 1:
                found = ", ".join(names) or "none"
                raise StatementError(
                    f"{self.path.name}: expected a column {name}, found {found}",
                    expected=f"a column {name}",
                    found=found,
                )

    def _skip(self, number: int, reason: str) -> None:
        self.refused += 1
        self.reasons = sorted([*self.reasons, (number, reason)])[:LISTED]

    def _good(self, numbers: NDArray[np.int64], raw: Columns) -> Columns:
        bad = np.zeros(len(numbers), np.bool_)
        columns: Columns = {}
        for name, type_name in self._types.items():
            values = raw[name]
            columns[name], reason = self._typed(name, type_name, values), _reason(name, type_name, values)
            self._refuse(numbers, bad, _flags(pc.is_null(columns[name])), reason)
            if type_name in ("FLOAT", "DOUBLE"):
                unusable = pc.is_nan(columns[name]) if self._infinite else pc.invert(pc.is_finite(columns[name]))
                self._refuse(numbers, bad, _flags(unusable), reason)
        if self._check is not None:
            for wrong, why in self._check(columns):
                self._refuse(numbers, bad, wrong, why)
        self.accepted += len(numbers) - int(np.count_nonzero(bad))
        return {name: values.filter(pa.array(~bad)) for name, values in columns.items()} if bad.any() else columns

    def _refuse(
        self, numbers: NDArray[np.int64], bad: NDArray[np.bool_], wrong: NDArray[np.bool_], why: Callable[[int], str]
    ) -> None:
        new = np.flatnonzero(wrong & ~bad)
        bad[new] = True
        self.refused += len(new)
        self.reasons = sorted([*self.reasons, *((int(numbers[i]), why(i)) for i in new[:LISTED].tolist())])[:LISTED]

    def _typed(self, name: str, type_name: str, values: pa.Array) -> pa.Array:
        """The values in the type, null where they are of no use."""
        from_text = pa.types.is_string(values.type) and self.path.suffix.lower() != ".parquet"
        if not from_text and not _same_sort(values.type, type_name):
            raise StatementError(
                f"{self.path.name}, column {name}: expected {type_name}, found {values.type}",
                expected=type_name,
                found=str(values.type),
            )
        try:
            if type_name == "BOOLEAN" and from_text:
                raise pa.ArrowInvalid("Arrow also takes 0 and 1 for truth values")
            return values.cast(ARROW[type_name])
        except pa.ArrowInvalid:  # some row cannot be used: look at each
            typed = (_value(type_name, value) for value in values.to_pylist())
            return pa.array(typed, ARROW[type_name])


class _Numbers:
    """The numbers of the rows that a CSV reader gives: those that it has skipped are left out."""

    def __init__(self, refuse: Callable[[int, str], None]) -> None:
        self._refuse = refuse
        self._next = 1
        self._skipped: set[int] = set()

    def skip(self, row: Any) -> str:
        """What the reader calls for a row with too many or too few fields."""
        number = row.number - 1  # the header is the first
        self._skipped.add(number)
        self._refuse(number, f"{row.actual_columns} fields, expected {row.expected_columns}")
        return "skip"

    def next(self, count: int) -> NDArray[np.int64]:
        """The numbers of the next rows."""
        end = self._next + count
        passed = sorted(number for number in self._skipped if number >= self._next)
        for number in passed:
            end += number < end
        numbers = np.setdiff1d(np.arange(self._next, end), [number for number in passed if number < end])
        self._skipped.difference_update(number for number in passed if number < end)
        self._next = end
        return numbers


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def _same_sort(arrow_type: pa.DataType, type_name: str) -> bool:
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if type_name == "STRING":
        return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)
    if type_name == "BOOLEAN":
        return pa.types.is_boolean(arrow_type)
    return pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)


def _value(type_name: str, raw: Any) -> Any:
    """The value of a type that a value of a file says; None if it says none."""
    if isinstance(raw, str) and type_name != "STRING":
        raw = _from_text(type_name, raw.strip())
    if raw is None or isinstance(raw, bool) or type_name in ("STRING", "BOOLEAN"):
        return raw if type_name == "STRING" or (type_name == "BOOLEAN" and isinstance(raw, bool)) else None
    try:
        if type_name in ("INT", "BIGINT"):
            return int(raw) if raw == int(raw) and is_value(type_name, int(raw)) else None
        return float(raw)
    except (ValueError, OverflowError):  # NaN and infinities are no integers, and not every integer is a float
        return None


def _from_text(type_name: str, text: str) -> Any:
    if type_name == "BOOLEAN":
        return _TRUTH.get(text.lower())
    try:
        if "_" in text:  # Python's own way to write numbers, nobody else's
            return None
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _reason(name: str, type_name: str, raw: pa.Array) -> Callable[[int], str]:
    def reason(row: int) -> str:
        value = raw[row].as_py()
        return f"{name} is missing" if value in (None, "") else f"{name} must be {type_name}, found {value!r:.60}"

    return reason
