"""`Sender`: fencing, order and retry, for every process that feeds a log."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.edge.sender import Sender, longer_pause
from tolerant.testing.failing import FailingLog
from tolerant.transport import Fenced, LogError, MemoryLog, Replaced
from tolerant.transport.rows import unpack


def batch(*numbers):
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def numbers(log, topic):
    return [unpack(entry.payload).column("number").to_pylist() for entry in log.read(topic)]


def refusal(newest):
    return f"epoch {newest} has started"


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=30))
def test_every_batch_is_appended_once_and_in_order_whatever_fails(steps):
    log = MemoryLog()
    fails = [False]
    sender = Sender(FailingLog(log, fail=lambda call: fails[0]), "source/s/a", log.next_epoch("source/s/a"), refusal)
    added = 0
    for rows, fails[0] in steps:
        sender.add("t", batch(*range(added, added + rows)))
        added += rows
        assert sender.attempt(sender.append_all) is not fails[0]
        assert sender.unsent + sender.sent["t"] == added
        assert (sender.unsent > 0) == fails[0] == (sender.outage is not None)
    fails[0] = False
    assert sender.attempt(sender.append_all)
    assert [number for entry in numbers(log, "t") for number in entry] == list(range(added))


def test_an_outage_lasts_from_its_first_error_to_the_next_success():
    log = MemoryLog()
    sender = Sender(FailingLog(log, fail=lambda call: call.number < 2), "a", 1, refusal)
    sender.add("t", batch(1))
    assert not sender.attempt(sender.append_all)
    first = sender.outage
    assert not sender.attempt(sender.append_all)
    assert sender.outage.since == first.since
    assert sender.outage.error is not first.error
    assert sender.attempt(sender.append_all)
    assert sender.outage is None


def test_only_the_newest_epoch_may_send():
    log = MemoryLog()
    older = Sender(log, "a", log.next_epoch("a"), refusal)
    older.check_epoch()
    newer = Sender(log, "a", log.next_epoch("a"), refusal)
    with pytest.raises(Fenced, match="epoch 2 has started"):
        older.attempt(older.check_epoch)
    assert older.outage is None
    newer.check_epoch()


def test_a_replaced_log_is_no_outage():
    def replaced():
        raise Replaced("gone")

    sender = Sender(MemoryLog(), "a", 1, refusal)
    with pytest.raises(Replaced):
        sender.attempt(replaced)
    assert sender.outage is None


def test_a_large_batch_is_one_append_of_several_entries():
    log = MemoryLog()
    sender = Sender(log, "a", 1, refusal, max_rows=2)
    sender.add("t", batch(1, 2, 3, 4, 5))
    sender.append_all()
    assert numbers(log, "t") == [[1, 2], [3, 4], [5]]
    fails = FailingLog(log, fail=lambda call: call.method == "append_packed")
    with pytest.raises(LogError):
        Sender(fails, "a", 1, refusal, max_rows=2).append("t", batch(6, 7, 8))
    assert len(numbers(log, "t")) == 3


def test_pauses_double_up_to_a_second():
    pauses = [0.05]
    while pauses[-1] < 1.0:
        pauses.append(longer_pause(pauses[-1]))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert longer_pause(1.0) == 1.0
