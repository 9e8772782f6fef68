"""Exact aggregates over a range: how subscribers find their answers in `notices.<template>`, where a row is for many.

Sums are kept exactly, as whole numbers of the smallest float there is, and rounded once: they do not drift, and what a
notice added can be taken out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.client.deliveries import table_rows
from tolerant.client.feeds import Found, Listener
from tolerant.client.positions import Position
from tolerant.notifications import Delta, Messages, RangeDistinct, RangeMax, RangeMin, Subscriptions
from tolerant.notifications.message import finite_ends
from tolerant.relations.changes import DTYPES
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.statements import RangeAggregateSelect
from tolerant.sql.templates import range_ends
from tolerant.transport import Log, rows
from tolerant.transport.notices import EXTREMES, RECTANGLE, notices_topic, totals_schema, values_schema
from tolerant.transport.records import OUTPUT_LIMITS, skipping

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Record = dict[str, Any]

_UNKNOWN = object()
_FEW = 32  # listeners up to which each is held against every notice: an index would not pay
_SHIFT = 1074
"""Every float is a whole number of 2^-1074."""


@dataclass(frozen=True)
class AnswerChange:
    """The answer of a subscription to an aggregate over a range; `at` microseconds.

    `value`: None where the range has no row (COUNT: 0); a frozenset for DISTINCT. `current`: it was the answer when the
    subscription began. The changes of one `at` are one transaction: the last one is the answer after it. `position`: to
    resume from once this and everything before has been dealt with.
    """

    value: Any
    at: int | None
    position: Position
    current: bool = False


class Answering(Protocol):
    """A subscription's answer, and what notices make of it."""

    @property
    def value(self) -> Any:
        """The answer as the application sees it."""
        ...

    def take(self, record: Record, x1: float, x2: float) -> None:
        """A notice that concerns the range [x1, x2]."""
        ...

    def take_back(self, record: Record, x1: float, x2: float) -> None:
        """Undo `take`."""
        ...


class Extreme:
    """The answer of MIN or MAX. Notices say the whole of it: nothing need be known before the first."""

    def __init__(self, fn: str, whole: bool, value: float | None = None) -> None:
        self._best, self._whole, self._value = (min if fn == "min" else max), whole, value

    @property
    def value(self) -> Any:
        """None: no row is in the range."""
        if self._value is None:
            return _UNKNOWN
        if not np.isfinite(self._value):
            return None
        return int(self._value) if self._whole else self._value

    def take(self, record: Record, x1: float, x2: float) -> None:
        """The best of the notice's value and of the rows that it lists in the range."""
        heights = (point["y"] for point in record["points"] if x1 <= point["x"] <= x2)
        self._value = self._best([record["value"], *heights])

    def take_back(self, record: Record, x1: float, x2: float) -> None:
        """What it was before is not known."""
        self._value = None


class Total:
    """The answer of COUNT, SUM or AVG: a count and an exact sum."""

    def __init__(self, fn: str, whole: bool, count: int, total: int) -> None:
        self._fn, self._whole, self._count, self._total = fn, whole, count, total

    @property
    def value(self) -> Any:
        """The sum of whole numbers is one; all else is rounded once, to the nearest float."""
        if self._fn == "count":
            return self._count
        if not self._count:
            return None
        if self._fn == "sum" and self._whole:
            return self._total >> _SHIFT
        return rounded(self._total, self._count if self._fn == "avg" else 1)

    def take(self, record: Record, x1: float, x2: float) -> None:
        """Add what the change is to the range."""
        count, total = _difference(record, x1, x2)
        self._count, self._total = self._count + count, self._total + total

    def take_back(self, record: Record, x1: float, x2: float) -> None:
        """Take it out again."""
        count, total = _difference(record, x1, x2)
        self._count, self._total = self._count - count, self._total - total


def _difference(record: Record, x1: float, x2: float) -> tuple[int, int]:
    old, new = (exact(record.get(name) or 0) for name in ("old_y", "new_y"))
    count, total = Delta(record["old_x"], old, record["new_x"], new).change(x1, x2)
    return count, int(total)


class Values:
    """The answer of DISTINCT."""

    def __init__(self, values: set[Any]) -> None:
        self._values = values

    @property
    def value(self) -> Any:
        """The values that rows in the range have."""
        return frozenset(self._values)

    def take(self, record: Record, x1: float, x2: float) -> None:
        """A value came, or went."""
        (self._values.discard if record["gone"] else self._values.add)(record["value"])

    def take_back(self, record: Record, x1: float, x2: float) -> None:
        """It went, or came."""
        (self._values.add if record["gone"] else self._values.discard)(record["value"])


def exact(value: float) -> int:
    """A number as how many 2^-1074 it is.

    >>> rounded(exact(0.1) + exact(0.2) - exact(0.1))
    0.2
    """
    over, under = value.as_integer_ratio()
    return over << (_SHIFT + 1 - under.bit_length())


def rounded(total: int, count: int = 1) -> float:
    """The float that is nearest to what `exact` numbers came to, over `count`; infinite beyond the largest."""
    try:
        return total / (count << _SHIFT)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


class NoticeListener(Listener):
    """Listens for the range [x1, x2]; what it is handed is (the answer, the event time)."""

    def __init__(self, position: Position, x1: float, x2: float, answer: Answering) -> None:
        super().__init__(position)
        self.x1, self.x2, self.answer = x1, x2, answer

    def offer(self, entry: int, found: Found) -> bool:
        """`Listener.offer`; what leaves the answer as it was is taken in, and not told."""
        if not super().offer(entry, found):
            return False
        records, position = self.waiting.pop()
        before = self.answer.value
        for record in records:
            self.answer.take(record, self.x1, self.x2)
        after = self.answer.value
        if after == before:
            return False
        self.waiting.append(((after, records[-1]["at"]), position))
        return True


class NoticeExtractor:
    """A notice says whom it concerns: each is held against the listeners' ranges, by an index where they are many."""

    def __init__(self, query: str, schema: pa.Schema) -> None:
        self.topic = notices_topic(query)
        self._schema = schema
        self._index, self._indexed = Subscriptions(), set[int]()

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """The notices of a batch for the listeners that they concern; those of one step come in one."""
        if not batch.schema.equals(self._schema):
            return  # of a query that had the same name
        places, numbers = self._concerned(batch, listeners)
        needed = np.unique(places)
        chosen = batch.take(pa.array(needed)).to_pylist()
        records = dict(zip(needed.tolist(), chosen, strict=True))
        together: dict[tuple[int, int], list[int]] = {}
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            together.setdefault((records[place]["step"], number), []).append(place)
        for (step, number), found in together.items():
            yield listeners[number], Found(found[-1], step, [records[place] for place in found])

    def _concerned(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> tuple[Integers, Integers]:
        """Pairs (row, listener), sorted by row."""
        row, lines = _rectangles(batch)
        numbers = np.fromiter(listeners, np.int64, len(listeners))
        if len(listeners) > _FEW:
            self._follow(listeners)
            which, whom = self._index.matching_many(Messages.of(row, lines))
        else:
            x1, x2 = finite_ends(*_ranges(listeners))
            inner_low, inner_high, outer_low, outer_high = lines[:, 1:, None].transpose(1, 0, 2)
            met = (outer_low < x1) & (x1 <= inner_low) & (inner_high <= x2) & (x2 < outer_high)
            which, at = np.nonzero(met)
            whom = numbers[at]
        pairs = np.unique(np.stack([row[which], whom], axis=1), axis=0)  # a change of both places concerns some twice
        return pairs[:, 0], pairs[:, 1]

    def _follow(self, listeners: Mapping[int, Listener]) -> None:
        """Bring the index to those who listen: mostly the same as before, or some more."""
        new, gone = listeners.keys() - self._indexed, self._indexed - listeners.keys()
        if gone:
            self._index.remove_many(np.fromiter(gone, np.int64, len(gone)))
        if new:
            chosen = {number: listeners[number] for number in new}
            self._index.add_many(np.fromiter(chosen, np.int64, len(chosen)), *_ranges(chosen))
        if new or gone:
            self._indexed = set(listeners)


def _ranges(listeners: Mapping[int, Listener]) -> tuple[Floats, Floats]:
    ends = [(one.x1, one.x2) for one in listeners.values() if isinstance(one, NoticeListener)]
    both = np.array(ends, np.float64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def _rectangles(batch: pa.RecordBatch) -> tuple[Integers, Floats]:
    """The rows of a batch as rectangles of ranges: the row of each, and lines as `Messages` has them."""
    every = np.arange(len(batch))
    if "old_x" not in batch.schema.names:
        whom = np.stack([batch.column(name).to_numpy() for name in RECTANGLE], axis=1)
        return every, np.ascontiguousarray(np.insert(whom, 0, 0.0, axis=1))
    places = [batch.column(name) for name in ("old_x", "new_x")]
    there = [place.is_valid().to_numpy(zero_copy_only=False) for place in places]
    row = np.concatenate([every[held] for held in there])
    x = np.concatenate([place.drop_null().to_numpy() for place in places])
    end = np.full(len(x), np.inf)
    return row, np.ascontiguousarray(np.stack([np.zeros(len(x)), x, x, -end, end], axis=1))


class NoticeHearing:
    """How to listen to an exact aggregate over a range."""

    def __init__(self, query: CreateQuery, table: CreateTable) -> None:
        assert isinstance(query.select, RangeAggregateSelect)
        self._query, self._table, self._select = query, table, query.select
        type_name = table.type_of(query.select.column) if query.select.column else None
        self._type = None if query.select.fn == "count" else type_name
        self._whole = type_name in ("INT", "BIGINT")
        self.extractor = NoticeExtractor(query.name, self._schema())

    def _schema(self) -> pa.Schema:
        if self._select.fn in ("min", "max"):
            return EXTREMES
        return values_schema(self._type or "") if self._select.fn == "distinct" else totals_schema(self._type)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `Hearing.begin`."""
        end = log.end()  # first: what is published between the two reads has been counted in, and is known by its step
        found, step = table_rows(log, self._table)
        position = Position(end, mark=step)
        listeners = self._listeners(
            found, [position] * len(numbers), *range_ends(self._query, len(numbers), parameters)
        )
        return [(one, [AnswerChange(one.answer.value, None, position, True)]) for one in listeners]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `Hearing.resume`. From the current answers the notices since the position are taken back."""
        low, high = range_ends(self._query, len(numbers), parameters)
        if self._select.fn in ("min", "max"):
            held = zip(positions, low.tolist(), high.tolist(), strict=True)
            return [NoticeListener(at, x1, x2, Extreme(self._select.fn, self._whole)) for at, x1, x2 in held]
        found, step = table_rows(log, self._table)
        listeners = self._listeners(found, positions, low, high)
        by_number: dict[int, Listener] = dict(zip(numbers, listeners, strict=True))
        since: dict[tuple[int, Listener], list[Record]] = {}
        for entry in log.read(self.extractor.topic, min(at.entry for at in positions) - 1):
            with skipping(f"an entry of {entry.topic}"):
                for listener, said in self.extractor.extract(rows.unpack(entry.payload, OUTPUT_LIMITS), by_number):
                    if listener.position.entry <= entry.position and listener.position.mark < said.mark <= step:
                        since.setdefault((said.mark, listener), said.what)
        for (_, listener), records in sorted(since.items(), key=lambda item: item[0][0], reverse=True):
            assert isinstance(listener, NoticeListener)
            for record in reversed(records):
                listener.answer.take_back(record, listener.x1, listener.x2)
        return [*listeners]

    def change(self, what: tuple[Any, int], position: Position) -> AnswerChange:
        """See `Hearing.change`."""
        return AnswerChange(what[0], what[1], position)

    def _listeners(
        self, found: Sequence[Record], positions: Sequence[Position], low: Floats, high: Floats
    ) -> list[NoticeListener]:
        """Listeners whose answers are those over these rows."""
        answers = self._answers(found, low, high)
        ends = zip(positions, low.tolist(), high.tolist(), answers, strict=True)
        return [NoticeListener(position, x1, x2, answer) for position, x1, x2, answer in ends]

    def _answers(self, found: Sequence[Record], low: Floats, high: Floats) -> list[Answering]:
        fn, column = self._select.fn, self._select.column or ""
        x = self._column(found, self._select.range.column).astype(np.float64)
        if fn == "min":
            minima = RangeMin.of(range(len(x)), x, self._column(found, column)).minima(low, high)
            return [Extreme(fn, self._whole, value) for value in minima.tolist()]
        if fn == "max":
            maxima = RangeMax.of(range(len(x)), x, self._column(found, column)).maxima(low, high)
            return [Extreme(fn, self._whole, value) for value in maxima.tolist()]
        if fn == "distinct":
            order = np.argsort(x, kind="stable").tolist()
            held = RangeDistinct.of((at, x[at], found[at][column]) for at in order)
            return [Values(held.distinct(x1, x2)) for x1, x2 in zip(low.tolist(), high.tolist(), strict=True)]
        return self._totals(found, x, low, high)

    def _totals(self, found: Sequence[Record], x: Floats, low: Floats, high: Floats) -> list[Answering]:
        order = np.argsort(x, kind="stable")
        begin, end = np.searchsorted(x[order], low, "left"), np.searchsorted(x[order], high, "right")
        sums = [0] * (len(x) + 1)
        if self._type is not None:
            column = self._select.column or ""
            sums = [0, *accumulate(exact(found[at][column]) for at in order.tolist())]
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        return [Total(self._select.fn, self._whole, last - at, sums[last] - sums[at]) for at, last in spans]

    def _column(self, found: Sequence[Record], name: str) -> NDArray[Any]:
        return np.array([row[name] for row in found], DTYPES[self._table.type_of(name) or ""])
