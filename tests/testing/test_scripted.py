import pyarrow as pa
import pytest

from tolerant.kernels.versions import epoch_of
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream, StreamOptions
from tolerant.testing import Crash, Restart, ScriptedSource, Set
from tolerant.transport import MemoryLog
from tolerant.transport.rows import STATEMENTS, unpack

SECOND = 1_000_000


@pytest.fixture
def log():
    columns = (Column("host", "STRING"), Column("rate", "DOUBLE"))
    body = encode(CreateStream(Stream("load", columns, ("host",), options=StreamOptions(lease=3 * SECOND))))
    log = MemoryLog()
    row = {"kind": "stream", "key": "load", "request": "", "text": "", "body": body}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


def rows(log):
    found = [row for entry in log.read("updates.load") for row in unpack(entry.payload).to_pylist()]
    return [(row["kind"], row["at"] / SECOND, row["value"], epoch_of(row["sequence"])) for row in found]


def test_it_plays_its_steps_and_lets_the_clock_pass_behind_them(log):
    ScriptedSource("load", log, [Set(SECOND, "a", 5.0), Set(2 * SECOND, "a", 6.0), Set(2 * SECOND, "a", None)]).play()
    assert rows(log) == [
        ("hello", 1.0, 5.0, 1),
        *2 * [("clock", 1.0, 0.0, 0)],
        ("heartbeat", 2.0, 0.0, 1),
        ("update", 2.000001, 6.0, 1),
        *2 * [("clock", 2.0, 0.0, 0)],
        ("gone", 2.000002, 6.0, 1),
        *2 * [("clock", 2.0, 0.0, 0)],
    ]


def test_what_happens_while_it_is_dead_is_said_when_it_is_back(log):
    script = [Set(SECOND, "a", 5.0), Crash(2 * SECOND), Set(3 * SECOND, "a", 9.0), Restart(4 * SECOND)]
    ScriptedSource("load", log, script, clock=False).play()
    assert rows(log) == [("hello", 1.0, 5.0, 1), ("heartbeat", 2.0, 0.0, 1), ("hello", 4.0, 9.0, 2)]


def test_it_can_be_played_in_parts(log):
    source = ScriptedSource("load", log, [Set(SECOND, "a", 5.0), Set(3 * SECOND, "a", 6.0)], clock=False)
    source.play(until=int(1.5 * SECOND))
    assert [kind for kind, *_ in rows(log)] == ["hello"]
    source.play()
    assert [kind for kind, *_ in rows(log)] == ["hello", "heartbeat", "heartbeat", "update"]


def test_steps_must_be_in_order(log):
    with pytest.raises(ValueError, match="in order"):
        ScriptedSource("load", log, [Crash(2), Crash(1)])
