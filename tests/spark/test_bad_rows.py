"""Rows and entries that nobody should send, one by one, to a stream's shard: each is a dead letter, and it goes on."""

import json
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rig import START, TRAFFIC, Rig, key
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


def goes_on(rig):
    """The pipeline still answers, and its answers follow the source."""
    before = rig.answers("load")[-1].value
    rig.set("edge", a=before + 1000, b=before + 1000)
    rig.tick(3)
    return last(rig)[3] and last(rig)[1] == pytest.approx(before + 1000)


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
    rig = settled(QUERY)
    rig.log.append("updates.traffic", forged(**columns))
    rig.tick()
    assert reason in rig.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(rig)


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
    rig = settled(QUERY)
    rig.log.append("updates.traffic", forged(**FINE[name]))
    rig.tick(12)
    assert goes_on(rig)


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
    rig = settled(QUERY)
    rig.log.append("updates.traffic", forged(kind="hello"))
    rig.tick()
    late = START + 5 * 365 * 24 * 3600 * SECOND  # and of a time that the shard must not walk up to
    rig.log.append("updates.traffic", forged(kind="ack", sequence=[version(1, 2)], at=[late], ways=[recent_ranges]))
    rig.tick(2)
    assert goes_on(rig)


def test_sums_too_large_for_any_number_are_forgotten_with_the_values():
    rig = settled("CREATE QUERY load AS SELECT SUM(rate) FROM traffic WITHIN 5")
    rig.set("edge", a=1.7e308, b=1.7e308)
    rig.tick(3)
    assert not last(rig)[3]
    rig.set("edge", a=1.0, b=2.0)
    rig.tick(15)
    low, value, high, good = last(rig)
    assert good
    assert low <= 3.0 <= high
    assert value == pytest.approx(3.0, abs=5)


def test_nulls_and_rows_of_another_shape_are_dead_letters():
    rig = settled(QUERY)
    whole = forged()
    for name in ("kind", "key", "at", "source", "sequence", "through", "value", "grant"):
        columns = [
            pa.nulls(1, field.type) if field.name == name else whole.column(field.name) for field in whole.schema
        ]
        rig.log.append("updates.traffic", pa.record_batch(columns, schema=whole.schema))
    rig.log.append("updates.traffic", whole.select(["kind", "key"]))
    rig.tick()
    reasons = [row["reason"] for row in rig.rows("dead_letters.traffic")]
    assert sum("is missing" in reason or "must be" in reason for reason in reasons) == 9
    assert goes_on(rig)


def test_many_bad_rows_give_a_few_dead_letters_and_one_that_counts_the_others():
    rig = settled(QUERY)
    size = 20_000
    rig.log.append(
        "updates.traffic",
        updates_batch(kind="update", keys=["]"] * size, at=[START] * size, source="forger", through=START,
                      sequence=[version(1, 1)] * size, value=[1.0] * size),
    )  # fmt: skip
    rig.tick(12)
    found = rig.rows("dead_letters.traffic")
    assert len(found) == 101
    assert found[-1]["reason"].startswith("and 19,900 more: key cannot be read")
    assert rig.summary()["dead"] == size
    assert goes_on(rig)


def test_bad_rows_of_many_items_leave_their_queries_unsettled_and_not_for_a_minute():
    """Their keys are fine: the items exist, so nothing may be claimed of queries that they are in."""
    rig = settled(AVERAGE)
    size = 5_000
    rig.log.append(
        "updates.traffic",
        updates_batch(kind="update", keys=[key(f"x{n}") for n in range(size)], at=[rig.now] * size, source="forger",
                      through=START, sequence=[version(1, 1)] * size, value=[np.nan] * size),
    )  # fmt: skip
    rig.tick(2)
    assert not last(rig)[3]


@pytest.mark.parametrize("limit", ["max_items = 2", "max_sources = 1"])
def test_items_beyond_the_limit_are_refused_and_answers_say_that_they_lack_them(limit):
    rig = settled(AVERAGE, stream=f"{TRAFFIC} WITH ({limit})")
    assert last(rig)[3]
    rig.start("other")
    rig.set("other", c=1000.0)
    rig.tick(4)
    assert "the most it may have" in rig.rows("dead_letters.traffic")[-1]["reason"]
    assert not last(rig)[3]
    shard = rig.shard
    again = type(shard)(rig.stream, 0, 1, "checkpoint")
    again.restore(shard.snapshot())
    assert again.snapshot() == shard.snapshot()


def test_limits_of_a_stream_count_for_its_entries():
    rig = settled(AVERAGE, stream=f"{TRAFFIC} WITH (max_entry_rows = 10, max_key_length = 20, max_dead_letters = 3)")
    rig.clock(checkpoint=str(uuid.uuid4()))
    rig.read()
    assert rig.rows("dead_letters.traffic") == []  # the name of a pipeline is not too long
    rig.set("edge", **{f"h{n}": 1.0 for n in range(11)})
    rig.tick()
    assert "declares 11 rows" in rig.rows("dead_letters.traffic")[-1]["reason"]
    rig.log.append("updates.traffic", forged(keys=[key("x" * 30)]))
    rig.tick()
    assert "more than 20" in rig.rows("dead_letters.traffic")[-1]["reason"]


@pytest.mark.parametrize("at", [YEAR_9999, 2**63 - 1, -(2**63), LATEST + 1])
def test_a_clock_row_of_no_time_moves_nothing(at):
    rig = settled(QUERY)
    rig.log.append("updates.traffic", clock_batch(at, 1, "checkpoint"))
    rig.tick()
    assert "years 1 to 2199" in rig.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(rig)


def test_a_dictionary_index_out_of_range_is_a_dead_letter():
    rig = settled(QUERY)
    batch = forged()
    wild = pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["x"]), safe=False)
    columns = [wild if field.name == "key" else batch.column(field.name) for field in batch.schema]
    rig.log.append_packed([("updates.traffic", pack(pa.RecordBatch.from_arrays(columns, schema=batch.schema)))])
    rig.tick()
    assert "out of bounds" in rig.rows("dead_letters.traffic")[-1]["reason"]
    assert goes_on(rig)


def test_bad_keys_go_to_some_shard_whose_dead_letters_they_are():
    stream = Rig(stream=f"{TRAFFIC} WITH (shards = 3, shard = host)").stream
    for keys in ("", "[" * 4000, '["\\ud800","in"]', '["a"]', "x" * 10_000):
        parts = split(pack(forged(keys=[keys])), stream)
        rows = [row for _, part in parts for row in unpack(part).to_pylist() if row["kind"] == "update"]
        assert [row["key"] for row in rows] == [keys]


def test_dead_letters_can_be_written_whatever_was_in_the_row():
    rig = settled(QUERY)
    rig.log.append("updates.traffic", forged(kind="\x00\ufffe", keys=["\x07]"], source="\x1b[31m"))
    rig.tick()
    assert unpack(rig.log.read("dead_letters.traffic")[-1].payload).schema.equals(DEAD)
