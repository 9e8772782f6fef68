"""`AnswerPublisher` against a plain replay: changed answers only, none that is withheld, tombstones of what ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.pipeline.answers import AnswerPublisher, PublishedAnswer
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import ANSWERS, read_current, unpack
from tolerant.transport.topics import answers_topic, current_topic

QUERIES = ("open", "withheld")
WITHHELD = frozenset({"withheld"})
GROUPS = [instance_name(query, group) for query in QUERIES for group in ("", "a")]

numbers = st.sampled_from([None, 1.0])
answers = st.builds(PublishedAnswer, numbers, numbers, numbers, st.booleans(), st.booleans())
changes = st.dictionaries(st.sampled_from(GROUPS), answers) | st.lists(st.sampled_from(GROUPS), unique=True)
histories = st.lists(st.tuples(st.integers(0, 1), changes, st.booleans()), max_size=12)
"""Steps: microseconds that pass, answers that are published or groups that are dropped, whether outputs are drained."""


def make(last_of_moment):
    return AnswerPublisher(PublishedAnswer, ANSWERS, last_of_moment=last_of_moment)


def written(history, last_of_moment, *, restoring=False):
    """What a reader of the log sees: the rows of each query's answers, and the current one of each group."""
    publisher, log, at = make(last_of_moment), MemoryLog(), 0
    for passed, change, drains in [*history, (0, [], True)]:
        at += passed
        if isinstance(change, dict):
            publisher.touch(change)
            assert publisher.touched == sorted(change)
            publisher.publish({group: change[group] for group in publisher.touched}, at, WITHHELD)
            assert publisher.touched == []
        else:
            publisher.drop(change, at)
        if drains:
            log.append_packed([(output.topic, output.payload) for output in publisher.drain()])
            assert publisher.drain() == []
            if restoring:
                state, publisher = publisher.state(), make(last_of_moment)
                publisher.load(state)
    rows = {
        query: [row for entry in log.read(answers_topic(query)) for row in unpack(entry.payload).to_pylist()]
        for query in QUERIES
    }
    newest = {name: log.latest(current_topic(query_and_group(name)[0]), query_and_group(name)[1]) for name in GROUPS}
    return rows, {name: read_current(record.body) for name, record in newest.items() if record and record.body}


def expected(history, last_of_moment):
    """The same, by lists: rows that were drained, or written before a drop, are not taken back."""
    rows, newest, last, at, final = {query: [] for query in QUERIES}, {}, {}, 0, dict.fromkeys(QUERIES, 0)
    for passed, change, drains in history:
        at += passed
        for name in sorted(change) if isinstance(change, dict) else ():
            if last.get(name) == change[name]:
                continue
            last[name], (query, group) = change[name], query_and_group(name)
            kept, open_rows = rows[query][: final[query]], rows[query][final[query] :]
            if last_of_moment:
                open_rows = [row for row in open_rows if (row["group"], row["at"]) != (group, at)]
            if query not in WITHHELD or not (change[name].stale or change[name].settling):
                open_rows.append({"query": query, "group": group, "at": at, **change[name]._asdict()})
            rows[query] = kept + open_rows
        dropped = [] if isinstance(change, dict) else change
        if drains or dropped:
            for query in QUERIES:
                newest |= {instance_name(query, row["group"]): row for row in rows[query][final[query] :]}
                final[query] = len(rows[query])
        for name in dropped:
            last.pop(name, None)
            newest.pop(name, None)
    return rows, newest


@pytest.mark.parametrize("last_of_moment", [False, True])
@given(history=histories)
def test_changed_answers_are_written_unless_withheld(last_of_moment, history):
    history = [*history, (0, {}, True)]
    assert written(history, last_of_moment) == expected(history, last_of_moment)


@pytest.mark.parametrize("last_of_moment", [False, True])
@given(history=histories)
def test_a_restored_publisher_writes_the_same(last_of_moment, history):
    assert written(history, last_of_moment, restoring=True) == written(history, last_of_moment)
