"""Rows and entries that nobody should send, one by one, to a stream's shard: each is a dead letter, and it goes on."""

import json
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stream_pipeline import START, TRAFFIC, StreamPipeline, key
from test_bounded_shard import AVERAGE, last, settled

from tolerant.kernels.versions import version
from tolerant.pipeline.splitter import split
from tolerant.streams import LATEST, SECOND
from tolerant.transport.rows import DEAD, NO_TIME, TimedRange, clock_batch, pack, unpack, updates_batch

YEAR_9999 = 253_402_300_799 * SECOND


def forged(**columns):
    """A row of another source, with these values."""
    row: dict[str, Any] = {
        "kind": "update",
        "keys": [key("x")],
        "at": [START + SECOND],
        "sequence": [version(1, 1)],
        "value": [1.0],
    }
    row |= {"through": START, "source": "forger", **columns}
    return updates_batch(**row)


def goes_on(pipeline):
    """The pipeline still answers, and its answers follow the source."""
    before = pipeline.answers("load")[-1].value
    pipeline.set("edge", a=before + 1000, b=before + 1000)
    pipeline.tick(3)
    return last(pipeline)[3] and last(pipeline)[1] == pytest.approx(before + 1000)


QUERY = "CREATE QUERY load AS SELECT AVG(rate) FROM traffic WHERE host IN ('a', 'b') WITHIN 5"

BAD = {
    "empty key": ({"keys": [""]}, "key cannot be read"),
    "nested key": ({"keys": ["[" * 4000 + "]" * 4000]}, "key has 8,000 characters"),
    "nested but short": ({"keys": ["[" * 900 + "]" * 900]}, "no parts that are lists"),
    "surrogate": ({"keys": ['["\\ud800","in"]']}, "key column host must be STRING"),
    "long key": ({"keys": [json.dumps(["x" * 10_000, "in"])]}, "key has 10,"),
    "long source": ({"source": "s" * 10_000}, "source has 10,000 characters"),
    "three parts": ({"keys": ['["a","b","c"]']}, "JSON list of 2 parts"),
    "object": ({"keys": ['{"a":1}']}, "no parts that are lists or objects"),
    "null parts": ({"keys": ["[null,null]"]}, "key column host must be STRING, got None"),
    "sum": ({"keys": ["\x1fnothing"]}, "is not the key of a sum"),
    "nan": ({"value": [np.nan]}, "value must be a finite number"),
    "infinite": ({"value": [np.inf]}, "value must be a finite number"),
    "slope": ({"slope": [-np.inf]}, "slope must be a finite number"),
    "steep": ({"slope": [1.7e308]}, "slope must be a finite number"),
    "report": ({"report": [b"abc"]}, "report must have"),
    "kind": ({"kind": "forged"}, "kind must be one of"),
    "earliest": ({"at": [-(2**63)]}, "at must lie in the years 1 to 2199"),
    "latest": ({"at": [2**63 - 1]}, "at must lie in the years 1 to 2199"),
    "no time": ({"at": [NO_TIME]}, "at must lie in the years 1 to 2199"),
    "sequence": ({"sequence": [-(2**63)]}, "sequence must be positive"),
    "grant": ({"grant": [-(2**63)]}, "grant must not be negative"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_row_that_cannot_be_used_is_a_dead_letter_with_the_reason(name):
    columns, reason = BAD[name]
    pipeline = settled(QUERY)
    pipeline.log.append("updates.traffic", forged(**columns))
    pipeline.tick()
    assert reason in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(pipeline)


FINE = {
    "sequence": {"sequence": [2**63 - 1]},
    "grant": {"grant": [2**63 - 1]},
    "through": {"through": 2**63 - 1},
    "value": {"value": [1.7e308]},
    "slope": {"slope": [1e290]},
    "sum": {"keys": ["\x1f0/99"], "kind": "hello"},
    "form_request": {"kind": "form_request"},
    "gone": {"kind": "gone", "value": [np.nan]},
}


@pytest.mark.parametrize("name", FINE)
def test_numbers_at_the_end_of_their_range_do_no_harm(name):
    pipeline = settled(QUERY)
    pipeline.log.append("updates.traffic", forged(**FINE[name]))
    pipeline.tick(12)
    assert goes_on(pipeline)


@pytest.mark.parametrize(
    "recent_ranges",
    [
        [TimedRange(-(2**63), -1.0, 1.0), TimedRange(2**63 - 1, -1.0, 1.0)],
        [TimedRange(5, np.nan, np.nan)],
        [TimedRange(START + n, -np.inf, np.inf) for n in range(3000)],
        [TimedRange(START + n, 0.0, 1.0) for n in range(3000)],
    ],
)
def test_a_history_that_makes_no_sense_is_not_believed(recent_ranges):
    pipeline = settled(QUERY)
    pipeline.log.append("updates.traffic", forged(kind="hello"))
    pipeline.tick()
    late = START + 5 * 365 * 24 * 3600 * SECOND  # and of a time that the shard must not walk up to
    pipeline.log.append(
        "updates.traffic", forged(kind="ack", sequence=[version(1, 2)], at=[late], ways=[recent_ranges])
    )
    pipeline.tick(2)
    assert goes_on(pipeline)


def test_sums_too_large_for_any_number_are_forgotten_with_the_values():
    pipeline = settled("CREATE QUERY load AS SELECT SUM(rate) FROM traffic WITHIN 5")
    pipeline.set("edge", a=1.7e308, b=1.7e308)
    pipeline.tick(3)
    assert not last(pipeline)[3]
    pipeline.set("edge", a=1.0, b=2.0)
    pipeline.tick(15)
    low, value, high, good = last(pipeline)
    assert good
    assert low <= 3.0 <= high
    assert value == pytest.approx(3.0, abs=5)


def test_nulls_and_rows_of_another_shape_are_dead_letters():
    pipeline = settled(QUERY)
    whole = forged()
    for name in ("kind", "key", "at", "source", "sequence", "through", "value", "grant"):
        columns = [
            pa.nulls(1, field.type) if field.name == name else whole.column(field.name) for field in whole.schema
        ]
        pipeline.log.append("updates.traffic", pa.record_batch(columns, schema=whole.schema))
    pipeline.log.append("updates.traffic", whole.select(["kind", "key"]))
    pipeline.tick()
    reasons = [row["reason"] for row in pipeline.rows("dead_letters.traffic")]
    assert sum("is missing" in reason or "must be" in reason for reason in reasons) == 9
    assert goes_on(pipeline)


def test_many_bad_rows_give_a_few_dead_letters_and_one_that_counts_the_others():
    pipeline = settled(QUERY)
    size = 20_000
    pipeline.log.append(
        "updates.traffic",
        updates_batch(kind="update", keys=["]"] * size, at=[START] * size, source="forger", through=START,
                      sequence=[version(1, 1)] * size, value=[1.0] * size),
    )  # fmt: skip
    pipeline.tick(12)
    found = pipeline.rows("dead_letters.traffic")
    assert len(found) == 101
    assert found[-1]["reason"].startswith("and 19,900 more: key cannot be read")
    assert pipeline.summary()["dead"] == size
    assert goes_on(pipeline)


def test_bad_rows_of_many_items_leave_their_queries_unsettled_and_not_for_a_minute():
    """Their keys are fine: the items exist, so nothing may be claimed of queries that they are in."""
    pipeline = settled(AVERAGE)
    size = 5_000
    pipeline.log.append(
        "updates.traffic",
        updates_batch(kind="update", keys=[key(f"x{n}") for n in range(size)], at=[pipeline.now] * size,
                      source="forger", through=START, sequence=[version(1, 1)] * size, value=[np.nan] * size),
    )  # fmt: skip
    pipeline.tick(2)
    assert not last(pipeline)[3]


@pytest.mark.parametrize("limit", ["max_items = 2", "max_sources = 1"])
def test_items_beyond_the_limit_are_refused_and_answers_say_that_they_lack_them(limit):
    pipeline = settled(AVERAGE, stream=f"{TRAFFIC} WITH ({limit})")
    assert last(pipeline)[3]
    pipeline.start_source("other")
    pipeline.set("other", c=1000.0)
    pipeline.tick(4)
    assert "the most it may have" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert not last(pipeline)[3]
    shard = pipeline.shard
    again = type(shard)(pipeline.stream, 0, 1, "checkpoint")
    again.restore(shard.snapshot())
    assert again.snapshot() == shard.snapshot()


def test_limits_of_a_stream_count_for_its_entries():
    pipeline = settled(
        AVERAGE, stream=f"{TRAFFIC} WITH (max_entry_rows = 10, max_key_length = 20, max_dead_letters = 3)"
    )
    pipeline.clock(checkpoint=str(uuid.uuid4()))
    pipeline.read()
    assert pipeline.rows("dead_letters.traffic") == []  # the name of a pipeline is not too long
    pipeline.set("edge", **{f"h{n}": 1.0 for n in range(11)})
    pipeline.tick()
    assert "declares 11 rows" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    pipeline.log.append("updates.traffic", forged(keys=[key("x" * 30)]))
    pipeline.tick()
    assert "more than 20" in pipeline.rows("dead_letters.traffic")[-1]["reason"]


@pytest.mark.parametrize("at", [YEAR_9999, 2**63 - 1, -(2**63), LATEST + 1])
def test_a_clock_row_of_no_time_moves_nothing(at):
    pipeline = settled(QUERY)
    pipeline.log.append("updates.traffic", clock_batch(at, 1, "checkpoint"))
    pipeline.tick()
    assert "years 1 to 2199" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(pipeline)


def test_a_dictionary_index_out_of_range_is_a_dead_letter():
    pipeline = settled(QUERY)
    batch = forged()
    wild = pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["x"]), safe=False)
    columns = [wild if field.name == "key" else batch.column(field.name) for field in batch.schema]
    pipeline.log.append_packed([("updates.traffic", pack(pa.RecordBatch.from_arrays(columns, schema=batch.schema)))])
    pipeline.tick()
    assert "out of bounds" in pipeline.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(pipeline)


def test_bad_keys_go_to_some_shard_whose_dead_letters_they_are():
    stream = StreamPipeline(stream=f"{TRAFFIC} WITH (shards = 3, shard = host)").stream
    for keys in ("", "[" * 4000, '["\\ud800","in"]', '["a"]', "x" * 10_000):
        parts = split(pack(forged(keys=[keys])), stream)
        rows = [row for _, part in parts for row in unpack(part).to_pylist() if row["kind"] == "update"]
        assert [row["key"] for row in rows] == [keys]


def test_dead_letters_can_be_written_whatever_was_in_the_row():
    pipeline = settled(QUERY)
    pipeline.log.append("updates.traffic", forged(kind="\x00\ufffe", keys=["\x07]"], source="\x1b[31m"))
    pipeline.tick()
    assert unpack(pipeline.log.read("dead_letters.traffic")[-1].payload).schema.equals(DEAD)
