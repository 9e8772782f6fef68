"""What an entry claims is checked before it is decompressed, and what it holds before anybody looks at it."""

import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tolerant.streams import Limits
from tolerant.transport.arrow_limits import check_declared
from tolerant.transport.rows import UPDATES, compacted, pack, unpack, updates_batch

ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


def stream(*batches, options=None, schema=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def rows(size, **more):
    number = np.arange(1, size + 1)
    keys = more.pop("keys", [f"k{n}" for n in number])
    return updates_batch(
        kind="update", keys=keys, at=number, source="s", sequence=number, through=size, value=number * 1.0, **more
    )


@pytest.mark.parametrize("size", [0, 1, 50, 5000])
@pytest.mark.parametrize("of", [rows, lambda size: compacted([("k", n, b"x" * n) for n in range(size % 900)])])
def test_what_was_packed_is_unpacked_and_its_size_is_known_before(size, of):
    batch = of(size)
    declared = check_declared(pack(batch), None)
    assert unpack(pack(batch)).equals(batch)
    assert declared.rows == len(batch)
    assert declared.bytes >= batch.nbytes - 64 * batch.num_columns


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_bomb_is_refused_before_it_is_decompressed(codec):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    payload = stream(pa.record_batch({"x": np.zeros(60_000_000, np.int64)}), options=options)
    tracemalloc.start()
    allocated = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match=r"declares 480,000,000 bytes .* more than 268,435,456|more than 1,000,000"):
        unpack(payload)
    with pytest.raises(ValueError, match="declares 480,000,000 bytes"):
        unpack(payload, Limits(entry_rows=10**9))
    assert pa.total_allocated_bytes() - allocated < 1 << 20
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_small_payload_that_claims_8_gigabytes_is_refused():
    payload = bytearray(stream(rows(3), options=ZSTD))
    batch = unpack(bytes(payload))
    assert len(payload) < 4000
    places = [place for place in range(0, len(payload) - 8, 8) if payload[place : place + 8] == struct.pack("<q", 24)]
    assert places, batch
    for place in places:
        bomb = bytes(payload[:place]) + struct.pack("<q", 8 << 30) + bytes(payload[place + 8 :])
        with pytest.raises(ValueError, match="not a packed Arrow batch"):
            unpack(bomb)


def test_more_rows_than_allowed_are_refused_however_few_bytes_they_take():
    flags = pa.record_batch({"x": pa.array(np.zeros(2_000_000, bool))})
    with pytest.raises(ValueError, match="declares 2,000,000 rows"):
        unpack(stream(flags, options=ZSTD))
    assert len(unpack(pack(rows(100)), Limits(entry_rows=100))) == 100
    with pytest.raises(ValueError, match="declares 101 rows"):
        unpack(pack(rows(101)), Limits(entry_rows=100))


@pytest.mark.parametrize(
    "column",
    [pa.nulls(3), pa.array([[1], [], [2]], pa.list_(pa.int64(), -1)), pa.array([b"ab"] * 3, pa.binary(2))],
    ids=["null", "list", "fixed"],
)
def test_types_that_take_no_memory_are_refused_and_lists_are_not(column):
    payload = stream(pa.record_batch({"x": column}))
    if pa.types.is_list(column.type):
        assert unpack(payload).column("x").equals(column)
    else:
        with pytest.raises(ValueError, match="a type that no row of Tolerant has"):
            unpack(payload)


def test_a_second_batch_more_bytes_and_deltas_are_refused_and_a_missing_end_is_not():
    batch = pa.record_batch({"x": [1, 2]})
    with pytest.raises(ValueError, match="one batch of rows"):
        unpack(stream(batch, batch))
    with pytest.raises(ValueError, match="5 bytes follow"):
        unpack(stream(batch) + b"12345")
    assert unpack(stream(batch)[:-8]).equals(batch)
    with pytest.raises(ValueError, match="ends before a batch"):
        unpack(stream(schema=batch.schema))
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    words = [pa.array(["a"]), pa.array(["a", "b"])]
    batches = [pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), w)], schema) for w in words]
    for options in (None, pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)):
        with pytest.raises(ValueError, match=r"dictionaries and one batch|dictionary is replaced"):
            unpack(stream(*batches, options=options))


def test_columns_nested_deeply_or_very_many_are_refused():
    deep = pa.array([1])
    for _ in range(20):
        deep = pa.StructArray.from_arrays([deep], ["x"])
    with pytest.raises(ValueError, match="nested more than 8 deep"):
        unpack(stream(pa.record_batch({"x": deep})))
    with pytest.raises(ValueError, match="more than 4096 columns"):
        unpack(stream(pa.record_batch({f"c{n}": [1] for n in range(5000)})))


def broken(batch, name, index):
    """The batch with one column made of buffers that do not fit each other."""
    columns = [index if field.name == name else batch.column(field.name) for field in batch.schema]
    return stream(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


def test_indices_offsets_and_texts_that_are_wrong_are_refused():
    batch = rows(3)
    words = pa.array(["k1", "k2", "k3"])
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 1, 99], pa.int32()), words, safe=False)
    with pytest.raises(ValueError, match="out of bounds"):
        unpack(broken(batch, "key", beyond))
    letters = pa.py_buffer(np.array([0, 1, 2, 3], np.int32))
    torn = pa.Array.from_buffers(pa.string(), 3, [None, letters, pa.py_buffer(b"\xc3\xc3\xff")])
    with pytest.raises(ValueError, match="UTF8"):
        unpack(broken(batch, "key", pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), torn)))
    offsets = pa.py_buffer(np.array([0, 3, 1, 3], np.int32))
    wild = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="ffset"):
        unpack(broken(batch, "report", wild))


def test_every_prefix_of_a_payload_is_refused_or_whole():
    payload = pack(rows(2))
    for end in range(len(payload)):
        try:
            assert unpack(payload[:end]).schema.equals(UPDATES)
        except ValueError:
            continue
        assert end == len(payload) - 8  # without its end
