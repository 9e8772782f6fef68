"""Routing rows to shards: nothing lost, nothing twice, and no source taken for dead."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tolerant.pipeline.splitter import Split, shard_of, split
from tolerant.streams import Column, Stream, StreamOptions, key_text, sum_key
from tolerant.transport import rows
from tolerant.transport.log import Entry

COLUMNS = (Column("host", "STRING"), Column("kind", "STRING"), Column("rate", "DOUBLE"))


def stream(shards: int, shard: str | None = "host") -> Stream:
    return Stream("s", COLUMNS, ("host", "kind"), options=StreamOptions(shards=shards, shard=shard))


def batch(kinds: list[str], keys: list[str], sources: list[str]) -> pa.RecordBatch:
    n = len(kinds)
    parts = [
        rows.updates_batch(
            kind=kinds[i], keys=[keys[i]], at=[i], source=sources[i], sequence=[i + 1], through=i, value=[float(i)]
        )
        for i in range(n)
    ]
    table = pa.Table.from_batches(parts, schema=rows.UPDATES).unify_dictionaries().combine_chunks()
    return (
        table.to_batches()[0] if n else rows.updates_batch(kind=[], keys=[], at=[], source="", sequence=[], through=0)
    )


KEYS = st.sampled_from([key_text((host, kind)) for host in "abcdefg" for kind in ("in", "out")])
ROW = st.one_of(
    st.tuples(st.sampled_from(["update", "hello", "ack", "gone"]), KEYS, st.sampled_from(["x", "y", "z"])),
    st.tuples(st.sampled_from(["clock", "heartbeat"]), st.just(""), st.sampled_from(["x", "y"])),
)


@given(st.lists(ROW, min_size=1, max_size=20), st.integers(2, 5))
def test_each_row_goes_where_it_belongs(given_rows: list[tuple[str, str, str]], shards: int) -> None:
    whole = batch(*map(list, zip(*given_rows, strict=True)))
    of = stream(shards)
    parts = {shard: rows.unpack(payload).to_pylist() for shard, payload in split(rows.pack(whole), of)}
    for shard in range(shards):
        mine = parts.get(shard, [])
        wanted = [
            row
            for row in whole.to_pylist()
            if row["kind"] in ("clock", "heartbeat") or shard_of(row["key"], of) == shard
        ]
        bare = [row | {"through": 0} for row in wanted]
        stand_ins = [row for row in mine if row | {"through": 0} not in bare]
        assert [row | {"through": 0} for row in mine if row not in stand_ins] == bare
        # The last row of each source says how far that has come with all its items, and no row says more.
        for source in {row["source"] for row in mine if row["kind"] != "clock"}:
            said = [r["through"] for r in whole.to_pylist() if r["source"] == source and r["kind"] != "clock"]
            heard = [r["through"] for r in mine if r["source"] == source and r["kind"] != "clock"]
            assert heard[-1] == said[-1]
            assert max(heard) <= max(said)
        assert [row["at"] for row in mine] == sorted(row["at"] for row in mine)
        # Every source that said something is heard of in every shard, no later than it spoke last.
        assert {row["source"] for row in mine} == {row["source"] for row in whole.to_pylist()}
        for row in stand_ins:
            last = [r for r in whole.to_pylist() if r["source"] == row["source"]][-1]
            assert (row["kind"], row["key"]) == ("heartbeat", "")
            assert (row["at"], row["sequence"], row["through"]) == (last["at"], last["sequence"], last["through"])


def test_shards_go_by_the_column() -> None:
    of = stream(16)
    assert shard_of(key_text(("web-1", "in")), of) == shard_of(key_text(("web-1", "out")), of)
    whole_key = stream(16, shard=None)
    assert len({shard_of(key_text(("web-1", str(i))), whole_key) for i in range(50)}) > 5


def test_shards_stay_what_they_are() -> None:
    """Written down: a change here would send items of running pipelines to other shards."""
    assert [shard_of(key_text((host, "in")), stream(8)) for host in ("a", "web-1", "ü")] == [6, 2, 6]


def test_unreadable_payloads_and_keys_go_to_shard_0() -> None:
    of = stream(3)
    assert split(b"junk", of) == [(0, b"junk")]
    other = rows.pack(pa.record_batch({"x": [1]}))
    assert split(other, of) == [(0, other)]
    broken = rows.pack(batch(["update"], ["not a key"], ["x"]))
    found = {shard: rows.unpack(payload).column("kind").to_pylist() for shard, payload in split(broken, of)}
    assert found == {0: ["update"], 1: ["heartbeat"], 2: ["heartbeat"]}


def test_a_part_keeps_positions_and_has_all_statements() -> None:
    clock = rows.pack(rows.clock_batch(5))
    update = rows.pack(batch(["update"], [key_text(("a", "in"))], ["x"]))
    entries = [Entry("queries", 0, 1, b"q"), Entry("updates.s", 0, 2, clock), Entry("updates.s", 0, 3, update)]
    of = Split(stream(2))
    for shard in (0, 1):
        part = of.part(shard, entries)
        assert [(entry.position, entry.topic) for entry in part] == [(1, "queries"), (2, "updates.s"), (3, "updates.s")]
        assert part[:2] == entries[:2]
        assert dict(split(update, stream(2)))[shard] == part[2].payload


def test_a_sum_goes_to_the_shard_that_asked_for_it() -> None:
    of = stream(3)
    whole = batch(["update", "form_request", "update"], [sum_key(2, 5), sum_key(2, 5), sum_key(1, 9)], ["x", "x", "x"])
    parts = {shard: rows.unpack(payload).to_pylist() for shard, payload in split(rows.pack(whole), of)}
    assert {shard: [row["kind"] for row in part] for shard, part in parts.items()} == {
        0: ["heartbeat"],
        1: ["update"],
        2: ["update", "form_request"],
    }
