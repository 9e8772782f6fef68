"""What every log promises, run over each of them."""

import threading

import pyarrow as pa
import pytest

from tolerant.transport import Fence, Fenced, LogError, PipelineLog, Record, is_compacted, rows
from tolerant.transport.common import compacted_batch
from tolerant.transport.topics import EPOCHS, POSITIONS, SEVERAL


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"value": list(values)})


def packed(*values: int) -> bytes:
    return rows.pack(batch(*values))


def compacted(*changed: tuple[str, int, bytes | None]) -> bytes:
    return rows.pack(compacted_batch(changed))


def positions(log: PipelineLog, topic: str, start: int = 0) -> list[int]:
    return [entry.position for entry in log.read(topic, start)]


def test_positions_are_one_order_over_all_topics(log: PipelineLog) -> None:
    given = [log.append("a", batch(1)), log.append("b", batch(2)), log.append("a", batch(3))]
    assert given == sorted(set(given))
    assert log.end() == given[-1]
    both = log.read(["a", "b"])
    assert [(e.topic, e.position) for e in both] == list(zip("aba", given, strict=True))
    assert rows.unpack(both[2].payload).column("value").to_pylist() == [3]


def test_reading_goes_on_after_the_position(log: PipelineLog) -> None:
    given = [log.append("a", batch(i)) for i in range(5)]
    assert positions(log, "a", given[1]) == given[2:]
    assert [e.position for e in log.read("a", given[0], limit=2)] == given[1:3]
    assert log.read("a", given[-1]) == []
    assert log.read("nothing") == []
    assert log.read([]) == []


def test_a_new_log_is_empty(log: PipelineLog) -> None:
    assert log.end() == 0
    assert log.topics() == []
    assert log.latest("grants.s", "x") is None


def test_compacted_topics_keep_the_greatest_version_and_equal_replaces(log: PipelineLog) -> None:
    log.append("grants.s", compacted_batch([("x", 2, b"two"), ("y", 1, b"one")]))
    log.append("grants.s", compacted_batch([("x", 1, b"older"), ("y", 1, b"again")]))
    assert log.latest("grants.s", "x") == Record("x", 2, b"two")
    assert log.latest("grants.s", "y") == Record("y", 1, b"again")
    log.append("grants.s", compacted_batch([("x", 3, None)]))
    assert log.latest("grants.s", "x") is None
    log.append("grants.s", compacted_batch([("x", 2, b"late")]))
    assert log.latest("grants.s", "x") is None


def test_reading_a_compacted_topic_gives_what_changed(log: PipelineLog) -> None:
    first = log.append("grants.s", compacted_batch([("x", 1, b"1"), ("y", 1, b"1")]))
    log.append("other", batch(1))
    second = log.append("grants.s", compacted_batch([("x", 2, b"2")]))
    assert [(e.position, rows.unpack(e.payload).column("key").to_pylist()) for e in log.read("grants.s")] == [
        (first, ["y"]),
        (second, ["x"]),
    ]
    assert positions(log, "grants.s", first) == [second]
    assert rows.unpack(log.read("grants.s", first)[0].payload).schema.equals(rows.COMPACTED)


def test_append_packed_is_all_or_nothing(log: PipelineLog) -> None:
    last = log.append_packed([("a", packed(1)), ("grants.s", compacted(("x", 1, b""))), ("a", packed(2))])
    assert last == log.end()
    assert positions(log, "a") == [last - 2, last]
    with pytest.raises(ValueError, match="not a packed Arrow batch"):
        log.append_packed([("a", packed(3)), ("grants.s", b"junk")])
    with pytest.raises(ValueError, match=r"'grants\.s' is compacted.*got \['value'\]"):
        log.append_packed([("a", packed(3)), ("grants.s", packed(1))])
    with pytest.raises(ValueError, match="a topic is a name"):
        log.append_packed([("a", packed(3)), ("", packed(1))])
    assert log.end() == last
    assert len(log.read("a")) == 2
    assert log.append_packed([]) == last


def test_topics_are_those_that_hold_something(log: PipelineLog) -> None:
    log.append("b", batch(1))
    log.append("a", batch(1))
    log.append("status.s", compacted_batch([("x", 1, b"")]))
    assert log.topics() == ["a", "b", "status.s"]


def test_epochs_count_up_and_name_their_owner(log: PipelineLog) -> None:
    assert [log.next_epoch("pipeline/s", "me"), log.next_epoch("pipeline/s", "you"), log.next_epoch("source/s/a")] == [
        1,
        2,
        1,
    ]
    assert log.latest(EPOCHS, "pipeline/s") == Record("pipeline/s", 2, b"you")


def test_epochs_are_taken_once_by_many_threads(log: PipelineLog) -> None:
    taken: list[int] = []
    threads = [threading.Thread(target=lambda: taken.append(log.next_epoch("pipeline/s"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 9))


def test_a_batch_is_appended_once(log: PipelineLog) -> None:
    assert log.append_once("c", 0, [("a", packed(1)), ("status.s", compacted(("x", 1, b"")))])
    assert not log.append_once("c", 0, [("a", packed(1))])
    assert log.append_once("c", 1, [])
    assert log.append_once("c", 2, [("a", packed(2))])
    assert not log.append_once("c", 1, [("a", packed(1))])
    assert log.append_once("other", 0, [("a", packed(3))])
    values = [rows.unpack(e.payload).column("value")[0].as_py() for e in log.read("a")]
    assert values == [1, 2, 3]


def test_a_refused_batch_can_come_again(log: PipelineLog) -> None:
    with pytest.raises(ValueError, match="not a packed"):
        log.append_once("c", 0, [("a", packed(1)), ("grants.s", b"junk")])
    assert log.append_once("c", 0, [("a", packed(1))])
    assert len(log.read("a")) == 1


def test_an_older_epoch_is_fenced(log: PipelineLog) -> None:
    first = Fence("pipeline/s", log.next_epoch("pipeline/s"))
    assert log.append_once("c", 0, [("a", packed(1))], first)
    second = Fence("pipeline/s", log.next_epoch("pipeline/s"))
    with pytest.raises(Fenced, match=r"pipeline/s has been taken over: a newer epoch runs, 2; .* holds epoch 1"):
        log.append_once("c", 1, [("a", packed(2))], first)
    assert len(log.read("a")) == 1
    assert log.append_once("c", 1, [("a", packed(2))], second)


def test_advance_heeds_both_limits_but_goes_on(log: PipelineLog) -> None:
    given = [log.append("a" if i % 2 else "b", batch(*range(100))) for i in range(6)]
    size = len(packed(*range(100)))
    both = ["a", "b"]
    assert log.advance(both, 0, entries=100, size=size * 100) == given[5]
    assert log.advance(both, 0, entries=2, size=size * 100) == given[1]
    assert log.advance(both, given[0], entries=100, size=size * 3) == given[3]
    assert log.advance(both, given[0], entries=1, size=0) == given[1]
    assert log.advance(["a"], 0, entries=2, size=size * 100) == given[3]
    log.append("elsewhere", batch(1))
    assert log.advance(both, given[5], entries=1, size=1) == given[5]


def test_trim_takes_only_what_is_old(log: PipelineLog, clock: object) -> None:
    given = []
    for i in range(4):
        clock.now = 1_000 * (i + 1)
        given.append(log.append("answers.q", batch(i)))
    assert log.trim("answers.q", before=3_000) == 2
    assert positions(log, "answers.q") == given[2:]
    assert log.trimmed(["answers.q", "else"]) == given[1]
    assert log.trimmed(["else"]) == 0
    assert log.append("answers.q", batch(9)) == given[-1] + 1


def test_trim_keeps_what_a_checkpoint_has_not_passed(log: PipelineLog, clock: object) -> None:
    log.register("c1", "s", ["updates.s", "queries"])
    log.register("c2", "s", ["updates.s", "queries"])
    given = [log.append("updates.s", batch(i)) for i in range(4)]
    free = log.append("answers.q", batch(1))
    clock.now = 10_000
    log.pass_position("c1", given[3])
    assert log.trim("updates.s", before=9_000) == 0
    log.pass_position("c2", given[1])
    log.pass_position("c2", given[0])
    assert log.trim("updates.s", before=9_000) == 2
    assert positions(log, "updates.s") == given[2:]
    log.register("c2", "s", ["updates.s"])
    assert log.latest(POSITIONS, "c2").version == given[1]
    log.forget("c2")
    log.pass_position("c2", given[0])
    assert log.trim("updates.s", before=9_000) == 2
    assert positions(log, "answers.q") == [free]
    log.register("c2", "s", ["updates.s"])
    assert log.latest(POSITIONS, "c2").version == 0


def test_trim_works_in_pieces_and_only_from_the_front(log: PipelineLog, clock: object) -> None:
    given = [log.append("a", batch(i)) for i in range(3)]
    clock.now = 50_000
    given.append(log.append("a", batch(3)))
    clock.now = 2_000
    given.append(log.append("a", batch(4)))
    assert log.trim("a", before=10_000, limit=2) == 2
    assert log.trim("a", before=10_000, limit=2) == 1
    assert log.trim("a", before=10_000, limit=2) == 0
    assert positions(log, "a") == given[3:]


def test_trim_never_touches_statements_and_compacted_rows(log: PipelineLog, clock: object) -> None:
    log.append("queries", batch(1))
    log.append("grants.s", compacted_batch([("x", 1, b""), ("y", 1, None)]))
    clock.now = 10_000
    assert log.trim("queries", before=9_000) == 0
    assert log.trim("grants.s", before=9_000) == 1
    assert [rows.unpack(e.payload).column("key").to_pylist() for e in log.read("grants.s")] == [["x"]]
    assert len(log.read("queries")) == 1


def test_a_checkpoint_that_was_replaced_is_forgotten_in_time(log: PipelineLog, clock: object) -> None:
    log.register("old", "s", ["updates.s"])
    log.register("elsewhere", "t", ["updates.t"])
    log.next_epoch("pipeline/s", "old")
    log.next_epoch("pipeline/t", "elsewhere")
    clock.now = 5_000
    log.trim(POSITIONS, before=4_000)
    assert log.latest(POSITIONS, "old") is not None
    log.next_epoch("pipeline/s", "new")
    log.register("new", "s", ["updates.s"])
    log.pass_position("old", 1)
    log.trim(POSITIONS, before=4_000)
    assert log.latest(POSITIONS, "old") is not None
    log.trim(POSITIONS, before=6_000)
    assert log.latest(POSITIONS, "old") is None
    assert {key for key in ("new", "elsewhere") if log.latest(POSITIONS, key)} == {"new", "elsewhere"}


def test_many_threads_append_and_nothing_is_lost(log: PipelineLog) -> None:
    def work(name: str) -> None:
        for i in range(20):
            log.append(name, batch(i))

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = log.read([f"t{i}" for i in range(4)])
    assert [e.position for e in found] == list(range(1, 81))
    for i in range(4):
        mine = [rows.unpack(e.payload).column("value")[0].as_py() for e in found if e.topic == f"t{i}"]
        assert mine == list(range(20))


def test_a_closed_log_says_so(log: PipelineLog) -> None:
    log.close()
    log.close()
    with pytest.raises(LogError, match="closed"):
        log.end()


def test_which_topics_are_compacted() -> None:
    assert [t for t in ("grants.s", "status.s", "current.q", "epochs", "positions") if not is_compacted(t)] == []
    assert [t for t in ("updates.s", "queries", "replies", "answers.q", "grants") if is_compacted(t)] == []


def test_rows_of_several_compacted_topics_share_an_entry(log: PipelineLog) -> None:
    columns = [["current.a", "current.b"], ["", "g"], [5, 7], [b"one", None]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, rows.SEVERAL, strict=True)]
    position = log.append(SEVERAL, pa.record_batch(arrays, schema=rows.SEVERAL))
    assert [entry.position for entry in log.read(["current.a", "current.b"])] == [position, position]
    found = log.latest("current.a", "")
    assert found is not None
    assert (found.version, found.body) == (5, b"one")
    assert log.latest("current.b", "g") is None
    assert SEVERAL not in log.topics()


def test_several_takes_compacted_topics_only(log: PipelineLog) -> None:
    columns = [["answers.a"], [""], [5], [b"one"]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, rows.SEVERAL, strict=True)]
    with pytest.raises(ValueError, match=r"answers\.a"):
        log.append(SEVERAL, pa.record_batch(arrays, schema=rows.SEVERAL))
