"""The event-time buffer against a slow, obvious twin, for every type of row that shards keep; and the watermark."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.pipeline.event_time import EventTime, EventTimeBuffer
from tolerant.pipeline.intake import ROW
from tolerant.pipeline.row_batches import ArrayBatches, ChangeBatches, ListBatches
from tolerant.relations import Changes
from tolerant.streams import Column

LATENCY, LEASE, JUMP = 3, 8, 10
COLUMNS = (Column("name", "STRING"), Column("x", "DOUBLE"))
SCHEMA = Schema("test", 1)


class Plain(NamedTuple):
    """A row as the twin has it; also the row of the lists."""

    at: int
    key: int
    sequence: int


def arrays(rows):
    made = np.zeros(len(rows), ROW)
    for name, column in (("at", 0), ("item", 1), ("sequence", 2)):
        made[name] = [row[column] for row in rows]
    return made


def changes(rows):
    numbers = np.array([row.sequence for row in rows], np.int64)
    return Changes(
        insert=numbers % 2 == 0,
        keys=np.array([str(row.key) for row in rows], object),
        at=np.array([row.at for row in rows], np.int64),
        source=(numbers % 2).astype(np.int32),
        sources=("even", "odd"),
        sequence=numbers,
        columns={"name": np.array([f"n{row.key}" for row in rows], object), "x": numbers.astype(np.float64)},
    )


def read_changes(batch):
    rows = [Plain(*row) for row in zip(batch.at.tolist(), map(int, batch.keys), batch.sequence.tolist(), strict=True)]
    assert batch.columns["name"].tolist() == [f"n{row.key}" for row in rows]
    assert batch.columns["x"].tolist() == [row.sequence for row in rows]
    assert [batch.sources[place] for place in batch.source] == [("even", "odd")[row.sequence % 2] for row in rows]
    return rows


KINDS = {
    "arrays": (
        ArrayBatches(),
        arrays,
        lambda rows: [Plain(int(row["at"]), int(row["item"]), int(row["sequence"])) for row in rows],
    ),
    "changes": (ChangeBatches(COLUMNS), changes, read_changes),
    "lists": (ListBatches(lambda row: row, list, lambda values: Plain(*values)), list, list),
}


class Twin:
    """Keeps all rows in one list and looks at each of them every time."""

    def __init__(self, inputs):
        self.inputs, self.clocks, self.watermark = inputs, {}, None
        self.rows = []  # (row, input, whether a clock row of its input has followed)

    def add(self, rows, number):
        late = [row for row in rows if self.watermark is not None and row.at <= self.watermark]
        self.rows += [(row, number, False) for row in rows if row not in late]
        return late

    def clock(self, at, number):
        ahead = [row for row, of, followed in self.rows if of == number and not followed and row.at > at + LEASE]
        self.rows = [(row, of, followed or of == number) for row, of, followed in self.rows if row not in ahead]
        self.clocks[number] = max(at, self.clocks.get(number, at))
        if len(self.clocks) == self.inputs:
            reached = min(self.clocks.values()) - LATENCY
            self.watermark = reached if self.watermark is None else max(reached, self.watermark)
        due = sorted(row for row, _, _ in self.rows if self.watermark is not None and row.at <= self.watermark)
        self.rows = [entry for entry in self.rows if entry[0] not in due]
        return ahead, due

    def drop(self, keys):
        dropped = [row for row, _, _ in self.rows if row.key in keys]
        self.rows = [entry for entry in self.rows if entry[0] not in dropped]
        return dropped


inputs = st.integers(1, 2)
times = st.integers(0, 40)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(0, 1), st.lists(st.tuples(times, st.integers(0, 3)), max_size=4)),
        st.tuples(st.just("clock"), st.integers(0, 1), times),
        st.tuples(st.just("drop"), st.just(0), st.sets(st.integers(0, 3), max_size=1)),
        st.tuples(st.just("snapshot"), st.just(0), st.none()),
    ),
    max_size=25,
)


@pytest.mark.parametrize("kind", KINDS)
@given(inputs=inputs, played=actions)
def test_rows_are_due_late_or_too_far_ahead_as_for_the_twin(kind, inputs, played):
    batches, make, read = KINDS[kind]

    def new():
        event_time = EventTime(LATENCY, JUMP, inputs)
        return event_time, EventTimeBuffer(batches, event_time, LEASE)

    (event_time, buffer), twin, sequence = new(), Twin(inputs), 0
    for what, number, content in played:
        number %= inputs
        if what == "rows":
            rows = [Plain(at, key, sequence + place) for place, (at, key) in enumerate(content)]
            sequence += len(rows)
            assert read(buffer.add(make(rows), number)) == twin.add(rows, number)
        elif what == "clock":
            ahead = read(buffer.too_far_ahead(content, number))
            event_time.tick(content, number)
            assert (ahead, read(buffer.due())) == twin.clock(content, number)
        elif what == "drop":
            dropped = buffer.drop(lambda some, keys=content: np.array([row.key in keys for row in read(some)], bool))
            assert sorted(read(dropped)) == sorted(twin.drop(content))
        else:
            fields = event_time.state(), buffer.state()
            event_time, buffer = new()
            for part, state in zip((event_time, buffer), fields, strict=True):
                part.load(SCHEMA.unpack(SCHEMA.pack(state)))
                assert SCHEMA.pack(part.state()) == SCHEMA.pack(state)
        assert event_time.watermark == twin.watermark
        assert sorted(read(buffer.all_waiting())) == sorted(row for row, _, _ in twin.rows)
        assert sorted(read(buffer.waiting())) == sorted(row for row, _, followed in twin.rows if followed)
        assert sum(len(rows) for rows in buffer.every_batch()) == len(twin.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_due_up_to_any_time(kind):
    batches, make, read = KINDS[kind]
    buffer = EventTimeBuffer(batches, EventTime(LATENCY, JUMP), LEASE)
    assert read(buffer.due()) == []
    buffer.keep(make([Plain(5, 1, 1), Plain(3, 2, 2), Plain(5, 0, 3)]))
    assert read(buffer.due(4)) == [Plain(3, 2, 2)]
    assert read(buffer.due(5)) == [Plain(5, 0, 3), Plain(5, 1, 1)]
    buffer.keep(make([Plain(9, 1, 4)]))
    buffer.clear()
    assert read(buffer.all_waiting()) == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), max_size=30))
def test_the_watermark_is_the_least_clock_less_the_latency_and_never_goes_back(ticks):
    event_time, seen = EventTime(LATENCY, JUMP, 3), []
    for count, (number, at) in enumerate(ticks, 1):
        event_time.tick(at, number)
        newest = [max((at for of, at in ticks[:count] if of == each), default=None) for each in range(3)]
        assert event_time.watermark == (None if None in newest else min(newest) - LATENCY)
        seen += [] if event_time.watermark is None else [event_time.watermark]
    assert seen == sorted(seen)


@given(st.lists(st.integers(-5, 60), min_size=1, max_size=10))
def test_clock_rows_of_each_input_are_accepted_by_their_own_order(times):
    together, alone = EventTime(LATENCY, JUMP, 2), EventTime(LATENCY, JUMP)
    for at in times:
        assert together.accept(at, 1) == alone.accept(at)
        assert together.accept(10**15, 0)[0] == [10**15]
