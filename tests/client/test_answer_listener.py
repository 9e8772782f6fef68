import dataclasses
import itertools

import pyarrow as pa
import pytest

from tolerant.client import Client, StatementClient
from tolerant.queries import Answer
from tolerant.sql import StatementError
from tolerant.transport import Deleted, LogError, MemoryLog, open_log, rows
from tolerant.transport.log import START


def answer(at, value, group=""):
    return Answer("q", at, value - 1, value, value + 1, group)


def packed(*answers):
    fields = [field.name for field in rows.ANSWERS]
    columns = [[getattr(a, name) for a in answers] for name in fields]
    return rows.pack(
        pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, rows.ANSWERS, strict=True)], schema=rows.ANSWERS)
    )


def publish(log, *answers):
    newest = {a.group: a for a in answers}
    current = rows.compacted([(group, a.at, rows.current_body(dataclasses.asdict(a))) for group, a in newest.items()])
    log.append_packed([("answers.q", packed(*answers)), ("current.q", rows.pack(current))])


def log_with_query(log=None):
    log = log or MemoryLog()
    for text in ("CREATE STREAM s (k STRING, v DOUBLE) KEY (k)", "CREATE QUERY q AS SELECT SUM(v) FROM s WITHIN 1"):
        StatementClient(log).send(StatementClient(log).parse(text)[0])
    return log


def take(changes, n):
    return [change.answer for change in itertools.islice(changes, n)]


def test_current_comes_first_then_changes():
    log = log_with_query()
    publish(log, answer(1, 5.0), answer(2, 6.0))
    changes = Client(log).answers("q")
    assert take(changes, 1) == [answer(2, 6.0)]
    publish(log, answer(3, 7.0))
    assert take(changes, 1) == [answer(3, 7.0)]


def test_every_group_has_its_current_answer():
    log = log_with_query()
    publish(log, answer(1, 5.0, "b"), answer(1, 6.0, "a"))
    assert [a.group for a in Client(log).current("q")] == ["a", "b"]


def test_a_query_that_there_is_not_is_an_error_that_lists_those_there_are():
    log = MemoryLog()
    for text in (
        "CREATE STREAM s (k STRING, v DOUBLE) KEY (k)",
        "CREATE QUERY inbound AS SELECT SUM(v) FROM s WITHIN 1",
    ):
        StatementClient(log).send(StatementClient(log).parse(text)[0])
    client = Client(log)
    for ask in (
        client.current,
        client.history,
        client.view,
        client.refresh,
        client.subscribe,
        lambda name: next(client.answers(name)),
        lambda name: next(client.answers(name, START)),
    ):
        with pytest.raises(StatementError, match=r"there is no (query|view|query over a table named) inbuond; .*are: "):
            ask("inbuond")
    with pytest.raises(StatementError, match=r"did you mean inbound\? There are: inbound$"):
        client.current("inbuond")
    # One that was created a moment ago is known, and has no answer yet.
    assert client.current("inbound") == client.history("inbound") == []
    assert list(client.answers("inbound", stop=lambda: True)) == []


def test_from_the_start_gives_all_and_resumes_after_a_position():
    log = log_with_query()
    publish(log, answer(1, 5.0))
    publish(log, answer(2, 6.0))
    changes = list(itertools.islice(Client(log).answers("q", START), 2))
    assert [c.answer.at for c in changes] == [1, 2]
    assert take(Client(log).answers("q", changes[0].position), 1) == [answer(2, 6.0)]


def test_answers_said_again_are_dropped():
    log = log_with_query()
    publish(log, answer(1, 5.0), answer(2, 6.0))
    publish(log, answer(1, 5.0), answer(2, 6.0), answer(3, 7.0))
    assert [a.at for a in Client(log).history("q")] == [1, 2, 3]
    assert [a.at for a in take(Client(log).answers("q", START), 3)] == [1, 2, 3]


def test_a_correction_at_the_same_time_is_shown():
    log = log_with_query()
    publish(log, answer(1, 5.0), answer(1, 6.0))
    assert [a.value for a in Client(log).history("q")] == [5.0, 6.0]


def test_stop_ends_the_wait():
    log = log_with_query()
    publish(log, answer(1, 5.0))
    assert [c.answer.at for c in Client(log).answers("q", stop=lambda: True)] == [1]


def test_a_log_given_by_uri_is_closed(tmp_path):
    uri = f"sqlite:///{tmp_path}/log.db"
    with pytest.raises(LogError, match="there is no log at"):
        Client(uri)
    log = log_with_query(open_log(uri, create=True))
    publish(log, answer(1, 5.0))
    log.close()
    with Client(uri) as client:
        assert client.current("q") == [answer(1, 5.0)]


def test_a_position_that_retention_has_passed_is_refused():
    log = MemoryLog(now=lambda: 0)
    kept = None
    for at in range(1, 6):
        log.append_packed([("answers.q", packed(answer(at, float(at))))])
        kept = kept or log.end()
    log.append("other", rows.compacted([]))
    assert log.trim("answers.q", before=1) == 5
    publish(log, answer(9, 9.0))
    with pytest.raises(Deleted, match="retention has deleted"):
        next(Client(log).answers("q", kept))
