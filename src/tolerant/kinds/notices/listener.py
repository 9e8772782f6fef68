"""Exact aggregates over a range: computes subscribers' answers from `notices.<template>`, where a row is for many.

Sums are exact, as integer multiples of the smallest float, and rounded once: they do not drift, and a notice that was
applied can be reverted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.kinds.ranges.listener import table_rows
from tolerant.notifications import Delta, Messages, RangeDistinct, RangeMax, RangeMin, RangeSubscriptions
from tolerant.notifications.message import finite_ends
from tolerant.relations.row_changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import range_ends
from tolerant.transport import Log, rows
from tolerant.transport.feeds import Extracted, Listener
from tolerant.transport.notices import EXTREMES, RECTANGLE, totals_schema, values_schema
from tolerant.transport.positions import Position
from tolerant.transport.records import OUTPUT_LIMITS, skipping
from tolerant.transport.topics import notices_topic

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Record = dict[str, Any]

_UNKNOWN = object()
_FEW = 32  # listeners up to which each is compared with every notice: an index would cost more
_SHIFT = 1074
"""Every float is an integer multiple of 2^-1074."""


@dataclass(frozen=True)
class AnswerChange:
    """The answer of a subscription to an aggregate over a range; `at` microseconds.

    `value`: None where the range has no row (COUNT: 0); a frozenset for DISTINCT. `current`: it was the answer when the
    subscription began. The changes of one `at` are one transaction: the last one is the answer after it. `position`: to
    resume from once this and everything before it has been processed.
    """

    value: Any
    at: int | None
    position: Position
    current: bool = False


class RangeAnswer(Protocol):
    """A subscription's answer, updated by notices."""

    @property
    def value(self) -> Any:
        """The answer as the application sees it."""
        ...

    def apply(self, record: Record, x1: float, x2: float) -> None:
        """Apply a notice that concerns the range [x1, x2]."""
        ...

    def revert(self, record: Record, x1: float, x2: float) -> None:
        """Undo `apply`."""
        ...


class ExtremeAnswer:
    """The answer of MIN or MAX. A notice has the complete answer: nothing need be known before the first."""

    def __init__(self, fn: str, whole: bool, value: float | None = None) -> None:
        self._best, self._whole, self._value = (min if fn == "min" else max), whole, value

    @property
    def value(self) -> Any:
        """The extreme; None: no row is in the range."""
        if self._value is None:
            return _UNKNOWN
        if not np.isfinite(self._value):
            return None
        return int(self._value) if self._whole else self._value

    def apply(self, record: Record, x1: float, x2: float) -> None:
        """Set the best of the notice's value and of the rows that it lists in the range."""
        heights = (point["y"] for point in record["points"] if x1 <= point["x"] <= x2)
        self._value = self._best([record["value"], *heights])

    def revert(self, record: Record, x1: float, x2: float) -> None:
        """Forget the answer: the one before is not known."""
        self._value = None


class TotalAnswer:
    """The answer of COUNT, SUM or AVG: a count and an exact sum."""

    def __init__(self, fn: str, whole: bool, count: int, total: int) -> None:
        self._fn, self._whole, self._count, self._total = fn, whole, count, total

    @property
    def value(self) -> Any:
        """The answer: an integer for a sum of integers; all else is rounded once, to the nearest float."""
        if self._fn == "count":
            return self._count
        if not self._count:
            return None
        if self._fn == "sum" and self._whole:
            return self._total >> _SHIFT
        return rounded(self._total, self._count if self._fn == "avg" else 1)

    def apply(self, record: Record, x1: float, x2: float) -> None:
        """Add the change of the range's count and sum."""
        count, total = _difference(record, x1, x2)
        self._count, self._total = self._count + count, self._total + total

    def revert(self, record: Record, x1: float, x2: float) -> None:
        """Subtract it again."""
        count, total = _difference(record, x1, x2)
        self._count, self._total = self._count - count, self._total - total


def _difference(record: Record, x1: float, x2: float) -> tuple[int, int]:
    old, new = (exact(record.get(name) or 0) for name in ("old_y", "new_y"))
    count, total = Delta(record["old_x"], old, record["new_x"], new).change(x1, x2)
    return count, int(total)


class DistinctAnswer:
    """The answer of DISTINCT."""

    def __init__(self, values: set[Any]) -> None:
        self._values = values

    @property
    def value(self) -> Any:
        """The values of the rows in the range."""
        return frozenset(self._values)

    def apply(self, record: Record, x1: float, x2: float) -> None:
        """Add or remove the notice's value."""
        (self._values.discard if record["gone"] else self._values.add)(record["value"])

    def revert(self, record: Record, x1: float, x2: float) -> None:
        """Remove or add the notice's value."""
        (self._values.add if record["gone"] else self._values.discard)(record["value"])


def exact(value: float) -> int:
    """Return a number as a multiple of 2^-1074.

    >>> rounded(exact(0.1) + exact(0.2) - exact(0.1))
    0.2
    """
    over, under = value.as_integer_ratio()
    return over << (_SHIFT + 1 - under.bit_length())


def rounded(total: int, count: int = 1) -> float:
    """Return the float nearest to a total of `exact` numbers divided by `count`; infinite beyond the largest float."""
    try:
        return total / (count << _SHIFT)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


class NoticeListener(Listener):
    """Listens for the range [x1, x2]; its contents are (answer, event time)."""

    def __init__(self, position: Position, x1: float, x2: float, answer: RangeAnswer) -> None:
        super().__init__(position)
        self.x1, self.x2, self.answer = x1, x2, answer

    def offer(self, entry: int, extracted: Extracted) -> bool:
        """See `Listener.offer`; notices that leave the answer unchanged are applied, but make no content."""
        if not super().offer(entry, extracted):
            return False
        records, position = self.waiting.pop()
        before = self.answer.value
        for record in records:
            self.answer.apply(record, self.x1, self.x2)
        after = self.answer.value
        if after == before:
            return False
        self.waiting.append(((after, records[-1]["at"]), position))
        return True


class NoticeExtractor:
    """Extracts notices for the listeners whose ranges they concern; uses an index where listeners are many."""

    def __init__(self, query: str, schema: pa.Schema) -> None:
        self.topic = notices_topic(query)
        self._schema = schema
        self._index, self._indexed = RangeSubscriptions(), set[int]()

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield the notices of a batch for the listeners that they concern; those of one step together."""
        if not batch.schema.equals(self._schema):
            return  # of a query that had the same name
        places, numbers = self._concerned(batch, listeners)
        needed = np.unique(places)
        chosen = batch.take(pa.array(needed)).to_pylist()
        records = dict(zip(needed.tolist(), chosen, strict=True))
        together: dict[tuple[int, int], list[int]] = {}
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            together.setdefault((records[place]["step"], number), []).append(place)
        for (step, number), own in together.items():
            yield listeners[number], Extracted(own[-1], step, [records[place] for place in own])

    def _concerned(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> tuple[Integers, Integers]:
        """Return pairs (row, listener) of notices and the listeners that they concern, sorted by row."""
        row, lines = _rectangles(batch)
        numbers = np.fromiter(listeners, np.int64, len(listeners))
        if len(listeners) > _FEW:
            self._update_index(listeners)
            which, whom = self._index.matching_many(Messages.of(row, lines))
        else:
            x1, x2 = finite_ends(*_ranges(listeners))
            inner_low, inner_high, outer_low, outer_high = lines[:, 1:, None].transpose(1, 0, 2)
            met = (outer_low < x1) & (x1 <= inner_low) & (inner_high <= x2) & (x2 < outer_high)
            which, at = np.nonzero(met)
            whom = numbers[at]
        pairs = np.unique(
            np.stack([row[which], whom], axis=1), axis=0
        )  # a change of both places concerns some listeners twice
        return pairs[:, 0], pairs[:, 1]

    def _update_index(self, listeners: Mapping[int, Listener]) -> None:
        """Update the index to the current listeners: mostly the same as before, or some more."""
        new, gone = listeners.keys() - self._indexed, self._indexed - listeners.keys()
        if gone:
            self._index.remove_many(np.fromiter(gone, np.int64, len(gone)))
        if new:
            chosen = {number: listeners[number] for number in new}
            self._index.add_many(np.fromiter(chosen, np.int64, len(chosen)), *_ranges(chosen))
        if new or gone:
            self._indexed = set(listeners)


def _ranges(listeners: Mapping[int, Listener]) -> tuple[Floats, Floats]:
    ends = [(listener.x1, listener.x2) for listener in listeners.values() if isinstance(listener, NoticeListener)]
    both = np.array(ends, np.float64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def _rectangles(batch: pa.RecordBatch) -> tuple[Integers, Floats]:
    """Return the rows of a batch as rectangles of ranges: the row of each, and lines as `Messages` has them."""
    every = np.arange(len(batch))
    if "old_x" not in batch.schema.names:
        whom = np.stack([batch.column(name).to_numpy() for name in RECTANGLE], axis=1)
        return every, np.ascontiguousarray(np.insert(whom, 0, 0.0, axis=1))
    places = [batch.column(name) for name in ("old_x", "new_x")]
    present = [place.is_valid().to_numpy(zero_copy_only=False) for place in places]
    row = np.concatenate([every[mask] for mask in present])
    x = np.concatenate([place.drop_null().to_numpy() for place in places])
    end = np.full(len(x), np.inf)
    return row, np.ascontiguousarray(np.stack([np.zeros(len(x)), x, x, -end, end], axis=1))


class NoticeListenerFactory:
    """Creates listeners to an exact aggregate over a range."""

    def __init__(self, query: CreateQuery, table: CreateTable) -> None:
        select = RangeAggregateSelect.of(query)
        self._query, self._table, self._select = query, table, select
        type_name = table.type_of(select.column) if select.column else None
        self._type = None if select.fn == "count" else type_name
        self._whole = type_name in ("INT", "BIGINT")
        self.extractor = NoticeExtractor(query.name, self._schema())

    def _schema(self) -> pa.Schema:
        if self._select.fn in ("min", "max"):
            return EXTREMES
        return values_schema(self._type or "") if self._select.fn == "distinct" else totals_schema(self._type)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `ListenerFactory.begin`."""
        # The end first: what is published between the two reads is in the rows already, and recognised by its step.
        end = log.end()
        current, step = table_rows(log, self._table)
        position = Position(end, mark=step)
        ends = range_ends(self._query, len(numbers), parameters)
        listeners = self._listeners(current, [position] * len(numbers), *ends)
        return [(listener, [AnswerChange(listener.answer.value, None, position, True)]) for listener in listeners]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `ListenerFactory.resume`. Reverts the notices since the position in the current answers."""
        low, high = range_ends(self._query, len(numbers), parameters)
        if self._select.fn in ("min", "max"):
            ends = zip(positions, low.tolist(), high.tolist(), strict=True)
            return [NoticeListener(at, x1, x2, ExtremeAnswer(self._select.fn, self._whole)) for at, x1, x2 in ends]
        current, step = table_rows(log, self._table)
        listeners = self._listeners(current, positions, low, high)
        by_number: dict[int, Listener] = dict(zip(numbers, listeners, strict=True))
        since: dict[tuple[int, Listener], list[Record]] = {}
        for entry in log.read(self.extractor.topic, min(at.entry for at in positions) - 1):
            with skipping(f"an entry of {entry.topic}"):
                for listener, part in self.extractor.extract(rows.unpack(entry.payload, OUTPUT_LIMITS), by_number):
                    if listener.position.entry <= entry.position and listener.position.mark < part.mark <= step:
                        since.setdefault((part.mark, listener), part.content)
        for (_, listener), records in sorted(since.items(), key=lambda item: item[0][0], reverse=True):
            assert isinstance(listener, NoticeListener)
            for record in reversed(records):
                listener.answer.revert(record, listener.x1, listener.x2)
        return [*listeners]

    def change(self, content: tuple[Any, int], position: Position) -> AnswerChange:
        """See `ListenerFactory.change`."""
        return AnswerChange(content[0], content[1], position)

    def _listeners(
        self, records: Sequence[Record], positions: Sequence[Position], low: Floats, high: Floats
    ) -> list[NoticeListener]:
        """Return listeners whose answers are those over these rows."""
        answers = self._answers(records, low, high)
        ends = zip(positions, low.tolist(), high.tolist(), answers, strict=True)
        return [NoticeListener(position, x1, x2, answer) for position, x1, x2, answer in ends]

    def _answers(self, records: Sequence[Record], low: Floats, high: Floats) -> list[RangeAnswer]:
        fn, column = self._select.fn, self._select.column or ""
        x = self._column(records, self._select.range.column).astype(np.float64)
        if fn == "min":
            minima = RangeMin.of(range(len(x)), x, self._column(records, column)).minima(low, high)
            return [ExtremeAnswer(fn, self._whole, value) for value in minima.tolist()]
        if fn == "max":
            maxima = RangeMax.of(range(len(x)), x, self._column(records, column)).maxima(low, high)
            return [ExtremeAnswer(fn, self._whole, value) for value in maxima.tolist()]
        if fn == "distinct":
            order = np.argsort(x, kind="stable").tolist()
            index = RangeDistinct.of((at, x[at], records[at][column]) for at in order)
            return [DistinctAnswer(index.distinct(x1, x2)) for x1, x2 in zip(low.tolist(), high.tolist(), strict=True)]
        return self._totals(records, x, low, high)

    def _totals(self, records: Sequence[Record], x: Floats, low: Floats, high: Floats) -> list[RangeAnswer]:
        order = np.argsort(x, kind="stable")
        begin, end = np.searchsorted(x[order], low, "left"), np.searchsorted(x[order], high, "right")
        sums = [0] * (len(x) + 1)
        if self._type is not None:
            column = self._select.column or ""
            sums = [0, *accumulate(exact(records[at][column]) for at in order.tolist())]
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        return [TotalAnswer(self._select.fn, self._whole, last - at, sums[last] - sums[at]) for at, last in spans]

    def _column(self, records: Sequence[Record], name: str) -> NDArray[Any]:
        return np.array([row[name] for row in records], DTYPES[self._table.type_of(name) or ""])
