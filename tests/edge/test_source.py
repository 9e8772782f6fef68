import threading

import numpy as np
import pyarrow as pa
import pytest

from tolerant.edge import Source, SourceError, default_name, find_stream
from tolerant.edge import background_sender as module
from tolerant.kernels.versions import epoch_of, version
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream, StreamOptions
from tolerant.testing import FailingLog
from tolerant.transport import MemoryLog, SqliteLog
from tolerant.transport.rows import STATEMENTS, Grant, grants_batch, unpack

SHORT = StreamOptions(tick=10_000, period=2, lease=60_000, latency=5_000)


def define(log, options=None):
    stream = Stream(
        "traffic",
        (Column("host", "STRING"), Column("kind", "STRING"), Column("rate", "DOUBLE")),
        ("host", "kind"),
        options=options or StreamOptions(),
    )
    row = {"kind": "stream", "key": "traffic", "request": "", "text": "", "body": encode(CreateStream(stream))}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


@pytest.fixture
def log():
    return define(MemoryLog())


def rows(log):
    return [row for entry in log.read("updates.traffic") for row in unpack(entry.payload).to_pylist()]


def spoken(log):
    return [(row["kind"], row["key"], row["value"]) for row in rows(log)]


def grant(log, item, width, shrink=0.0, since=1, confirm=False):
    log.append("grants.traffic", grants_batch([Grant(item, width, shrink, since, version(1, 1), confirm)]))


IN, OUT = '["web-1","in"]', '["web-1","out"]'


def test_what_is_set_is_in_the_log_when_the_source_is_closed(log):
    with Source("traffic", log, name="web-1") as source:
        source.set(("web-1", "in"), 1742.0)
        source.set(("web-1", "out"), 3)
        source.set(("web-1", "in"), 1750.0)
    assert spoken(log) == [("hello", IN, 1742.0), ("hello", OUT, 3.0), ("update", IN, 1750.0)]
    assert {row["source"] for row in rows(log)} == {"web-1"}


def test_rows_go_by_themselves_soon_after(log):
    with Source("traffic", log) as source:
        source.set(("web-1", "in"), 1.0)
        for _ in range(500):
            if rows(log):
                break
            threading.Event().wait(0.01)
        assert spoken(log) == [("hello", IN, 1.0)]


def test_grants_that_stand_in_the_log_are_in_the_hello(log):
    grant(log, IN, 10.0, confirm=True)
    with Source("traffic", log) as source:
        source.set(("web-1", "in"), 1.0)
        source.set(("web-1", "in"), 5.0)
    assert [(row["kind"], row["grant"]) for row in rows(log)] == [("hello", version(1, 1))]


def test_grants_that_come_later_are_read_in_the_background(log):
    with Source("traffic", log) as source:
        source.set(("web-1", "in"), 1.0)
        grant(log, IN, 10.0, confirm=True)
        for _ in range(500):
            if len(rows(log)) == 2:
                break
            threading.Event().wait(0.01)
        source.set(("web-1", "in"), 5.0)
    assert [(row["kind"], row["grant"]) for row in rows(log)] == [("hello", 0), ("ack", version(1, 1))]


def test_beats_and_boundaries_come_by_themselves():
    log = define(MemoryLog(), SHORT)
    grant(log, IN, 4.0, shrink=0.25, since=10**15 * 2)
    with Source("traffic", log) as source:
        source.set(("web-1", "in"), 1.0)
        for _ in range(500):
            if [row["kind"] for row in rows(log)].count("heartbeat") > 2:
                break
            threading.Event().wait(0.01)
    kinds = [row["kind"] for row in rows(log)]
    assert kinds[0] == "hello"
    assert set(kinds[1:]) == {"heartbeat"}
    assert len(kinds) > 3


def test_each_start_takes_the_next_epoch_of_its_name(log):
    epochs = []
    for name in ("a", "a", "b"):
        with Source("traffic", log, name=name) as source:
            source.set(("web-1", name), 1.0)
            epochs.append(source.epoch)
    assert epochs == [1, 2, 1]
    assert [epoch_of(row["sequence"]) for row in rows(log)] == [1, 2, 1]


def test_a_second_source_of_one_name_stops_the_first(log):
    first = Source("traffic", log, name="a")
    first.set(("web-1", "in"), 1.0)
    first.flush()
    with Source("traffic", log, name="a"):
        first.set(("web-1", "in"), 2.0)
        with pytest.raises(SourceError, match="another source named 'a'"):
            first.flush()
        with pytest.raises(SourceError, match="its own name"):
            first.set(("web-1", "in"), 3.0)
        first.close()
    assert spoken(log) == [("hello", IN, 1.0)]


def test_arrays_of_handles_and_of_keys(log):
    with Source("traffic", log) as source:
        handles = source.register([("web-1", "in"), ("web-1", "out")])
        source.set_many(handles, np.array([1.0, 2.0]))
        source.set_many([("web-1", "out"), IN], [2.0, 5])
        assert source.items() == [IN, OUT]
        source.remove(("web-1", "out"))
        assert source.items() == [IN]
    assert spoken(log) == [("hello", IN, 1.0), ("hello", OUT, 2.0), ("update", IN, 5.0), ("gone", OUT, 2.0)]


@pytest.mark.parametrize(
    ("items", "values", "message"),
    [
        ([("web-1", "in"), ("web-1", "out")], [1.0, float("nan")], "finite"),
        ([("web-1", "in"), ("web-1", "out")], [1.0, "x"], "position 1"),
        ([("web-1", "in"), ("web-1",)], [1.0, 2.0], "must be a tuple"),
        ([["web-1", "in"]], [1.0], "must be a tuple"),
        ("web-1", [1.0], "Was set meant"),
        (np.array([0.5]), [1.0], "handles"),
        (np.array([99]), [1.0], "handles"),
        ([("web-1", "in")], [1.0, 2.0], "one for each"),
    ],
)
def test_bad_input_is_refused_and_nothing_of_it_is_taken(log, items, values, message):
    with Source("traffic", log) as source:
        with pytest.raises(ValueError, match=message):
            source.set_many(items, values)
        with pytest.raises(ValueError, match="has no value here"):
            source.remove(("web-1", "in"))
    assert rows(log) == []


def test_a_stream_that_does_not_exist_is_named_with_those_that_do(log):
    with pytest.raises(LookupError, match=r"no stream trafic; did you mean traffic\? There are: traffic"):
        Source("trafic", log, timeout=0.0)


def test_a_stream_is_waited_for():
    log = MemoryLog()
    later = threading.Timer(0.05, define, [log])
    later.start()
    assert find_stream(log, "traffic").key == ("host", "kind")
    later.join()


def test_statements_that_cannot_be_read_are_passed_over():
    log = MemoryLog()
    log.append_packed([("queries", b"garbage")])
    assert find_stream(define(log), "traffic", timeout=0.0).name == "traffic"


def test_failed_appends_are_tried_again_without_loss_or_reordering(log):
    failing = FailingLog(log, fail=lambda call: call.method == "append" and call.number % 3 != 2)
    with Source("traffic", failing) as source:
        for value in range(5):
            source.set(("web-1", "in"), float(value))
            source.flush()
    assert [row["value"] for row in rows(log)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    sequences = [row["sequence"] for row in rows(log)]
    assert sequences == sorted(set(sequences))


def test_an_append_that_failed_after_it_was_accepted_is_repeated_as_it_was(log):
    failing = FailingLog(log, fail=lambda call: call.method == "append" and call.number == 0, after=True)
    with Source("traffic", failing) as source:
        source.set(("web-1", "in"), 1.0)
    assert [row["sequence"] for row in rows(log)] == [version(1, 1)] * 2


def test_trouble_that_lasts_longer_than_the_lease_is_raised_and_nothing_is_lost_when_it_ends():
    log = define(MemoryLog(), SHORT)
    down = threading.Event()
    failing = FailingLog(log, fail=lambda call: call.method == "append" and down.is_set())
    with Source("traffic", failing) as source:
        source.set(("web-1", "in"), 1.0)
        source.flush()
        down.set()
        source.set(("web-1", "in"), 2.0)
        with pytest.raises(SourceError, match=r"could not append \d+ rows .*They are kept"):  # noqa: PT012
            for _ in range(500):
                threading.Event().wait(0.01)
                source.set(("web-1", "in"), 2.0)
        down.clear()
    assert [value for kind, _, value in spoken(log) if kind in ("hello", "update")] == [1.0, 2.0]


def test_a_close_that_cannot_send_says_so(log):
    source = Source("traffic", FailingLog(log, fail=lambda call: call.method == "append"))
    source.set(("web-1", "in"), 1.0)
    with pytest.raises(SourceError, match="could not append 1 rows"):
        source.close(timeout=0.1)
    source.close()
    with pytest.raises(SourceError, match="is closed"):
        source.set(("web-1", "in"), 2.0)


def test_what_fails_unexpectedly_in_the_background_is_raised_by_the_next_call(log):
    def broken(call):
        if call.method == "append":
            raise RuntimeError("a mistake")
        return False

    source = Source("traffic", FailingLog(log, fail=broken))
    source.set(("web-1", "in"), 1.0)
    with pytest.raises(SourceError, match="has failed: a mistake"):
        source.flush()
    with pytest.raises(SourceError, match="has failed: a mistake"):
        source.set(("web-1", "in"), 2.0)
    source.close()


def test_a_full_batch_does_not_wait(log, monkeypatch):
    monkeypatch.setattr(module, "FLUSH_ROWS", 3)
    monkeypatch.setattr(module, "FLUSH_AFTER", 3600.0)
    with Source("traffic", log) as source:
        source.set_many([("web-1", str(n)) for n in range(3)], [1.0] * 3)
        for _ in range(500):
            if rows(log):
                break
            threading.Event().wait(0.01)
        assert len(rows(log)) == 3


def test_with_a_clock_of_ones_own_everything_happens_in_its_time(log):
    now = [1]
    with Source("traffic", log, clock=lambda: now[0]) as source:
        source.set(("web-1", "in"), 1.0)
        assert source.due() == 1_000_000  # a tick: its centre may move
        grant(log, IN, 4.0, shrink=0.5, confirm=True)
        source.advance()
        source.set(("web-1", "in"), 2.5)
        now[0] = 20_000_000
        source.advance()
    assert [(row["kind"], row["at"], row["value"]) for row in rows(log)] == [
        ("hello", 1, 1.0),
        ("ack", 1, 1.0),
        ("update", 10_000_001, 2.5),
        ("heartbeat", 20_000_000, 0.0),
    ]


def test_a_source_on_the_wall_clock_cannot_be_advanced(log):
    with Source("traffic", log) as source, pytest.raises(ValueError, match="uses the wall clock"):
        source.advance(5)


def test_it_opens_and_closes_a_log_of_its_own(tmp_path):
    uri = f"sqlite:///{tmp_path}/log.db"
    log = define(SqliteLog(tmp_path / "log.db", create=True))
    with Source("traffic", log=uri) as source:
        source.set(("web-1", "in"), 1.0)
    assert spoken(log) == [("hello", IN, 1.0)]
    log.close()


@pytest.mark.parametrize(
    ("program", "name"),
    [("/opt/app/feeder.py", "feeder"), ("/x/feeder/__main__.py", "feeder"), ("-c", "python"), ("", "python")],
)
def test_the_default_name_is_the_same_after_a_restart(monkeypatch, program, name):
    monkeypatch.setattr("sys.argv", [program])
    monkeypatch.setattr("socket.gethostname", lambda: "web-1")
    assert default_name() == f"web-1/{name}"
