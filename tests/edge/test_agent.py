import pyarrow as pa
import pytest

from tolerant.edge import HostMetrics, run_agent
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream
from tolerant.transport import MemoryLog
from tolerant.transport.rows import STATEMENTS, unpack


def log_with(key):
    columns = (*(Column(name, "STRING") for name in key), Column("rate", "DOUBLE"))
    body = encode(CreateStream(Stream("traffic", columns, key)))
    log = MemoryLog()
    row = {"kind": "stream", "key": "traffic", "request": "", "text": "", "body": body}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


def test_readings_are_rates_and_percentages():
    times = iter([0.0, 2.0])
    reading = HostMetrics(clock=lambda: next(times)).read()
    assert {"packets_in", "packets_out", "bytes_in", "bytes_out", "cpu", "memory", "disk"} <= reading.keys()
    assert all(value >= 0 for value in reading.values())


def test_it_offers_every_metric_of_the_host():
    log, seen = log_with(("host", "metric")), []
    assert run_agent(log, "traffic", interval=0.01, seconds=0.05, host="web-1", each=seen.append) == len(seen) > 0
    rows = [row for entry in log.read("updates.traffic") for row in unpack(entry.payload).to_pylist()]
    assert {row["key"] for row in rows if row["kind"] == "hello"} == {f'["web-1","{metric}"]' for metric in seen[0]}
    assert {row["source"] for row in rows} == {"web-1/agent"}


def test_a_stream_of_another_key_is_refused():
    with pytest.raises(ValueError, match=r"needs a stream with the key .*'traffic' has \(host STRING\)"):
        run_agent(log_with(("host",)), "traffic", interval=0.01, seconds=0.05)


def test_an_interval_must_be_positive():
    with pytest.raises(ValueError, match="interval"):
        run_agent(MemoryLog(), "traffic", interval=0.0)
