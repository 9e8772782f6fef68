"""A file of statements beside a log that has changed since: what differs, and what brings the log to the file."""

import pytest

from tolerant.client import StatementClient, load_catalogue
from tolerant.sql import AlterQuery, StatementError, render
from tolerant.transport import MemoryLog

STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);\n"
QUERY = "CREATE QUERY inbound AS SELECT AVG(rate) FROM traffic WHERE kind = 'in' WITHIN 5;\n"
TABLE = "CREATE TABLE stock (id INT, x DOUBLE) KEY (id);\n"
AREA = "CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;\n"


@pytest.fixture
def log():
    made = MemoryLog()
    say(made, STREAM + QUERY + TABLE + AREA)
    return made


def say(log, text):
    StatementClient(log).register(text)


def apply(log, text):
    for statement in StatementClient(log).compare(text, apply=True).to_send:
        StatementClient(log).send(statement)


def within(log):
    return load_catalogue(log).queries["inbound"].select.within


def test_the_same_file_again_changes_nothing(log):
    comparison = StatementClient(log).compare(STREAM + QUERY + TABLE + AREA)
    assert (comparison.to_send, comparison.altered) == ((), ())


def test_a_tolerance_that_was_altered_since_stays_and_is_told(log):
    say(log, "ALTER QUERY inbound WITHIN 3")
    comparison = StatementClient(log).compare(STREAM + QUERY)
    assert comparison.to_send == ()
    assert [(one.wanted.about, one.tolerances) for one in comparison.altered] == [("inbound", (5.0, 3.0))]
    assert within(log) == 3.0


def test_apply_alters_it_back(log):
    say(log, "ALTER QUERY inbound WITHIN 3")
    assert StatementClient(log).compare(STREAM + QUERY, apply=True).to_send == (AlterQuery("inbound", 5.0),)
    apply(log, STREAM + QUERY)
    assert within(log) == 5.0
    assert StatementClient(log).compare(STREAM + QUERY).altered == ()


def test_an_alter_in_the_file_is_part_of_its_definition(log):
    text = STREAM + QUERY + "ALTER QUERY inbound WITHIN 3;\n"
    assert [one.tolerances for one in StatementClient(log).compare(text).altered] == [(3.0, 5.0)]
    apply(log, text)
    assert within(log) == 3.0
    comparison = StatementClient(log).compare(text)
    assert (comparison.to_send, comparison.altered) == ((), ())
    say(log, "ALTER QUERY inbound WITHIN 4")
    comparison = StatementClient(log).compare(text)
    assert comparison.to_send == ()
    assert [one.tolerances for one in comparison.altered] == [(3.0, 4.0)]


def test_an_alter_of_what_the_file_creates_first_is_sent():
    text = STREAM + QUERY + "ALTER QUERY inbound WITHIN 3;\n"
    made = MemoryLog()
    for statement in StatementClient(made).compare(text).to_send:
        StatementClient(made).send(statement)
    assert within(made) == 3.0


def test_another_query_is_shown_with_what_resolves_it(log):
    text = STREAM + QUERY.replace("AVG", "SUM")
    with pytest.raises(StatementError) as refused:
        StatementClient(log).compare(text)
    assert refused.value.line == 2
    assert refused.value.reason == (
        "query inbound differs:\n"
        "  log:  CREATE QUERY inbound AS SELECT AVG(rate) FROM traffic WHERE kind = 'in' WITHIN 5\n"
        "  file: CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5\n"
        "  the log comes to the file by: DROP QUERY inbound; CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic "
        "WHERE kind = 'in' WITHIN 5"
    )
    assert load_catalogue(log).queries["inbound"].select.fn == "avg"


def test_apply_replaces_a_query_that_differs(log):
    apply(log, STREAM + QUERY.replace("AVG", "SUM"))
    assert load_catalogue(log).queries["inbound"].select.fn == "sum"


@pytest.mark.parametrize("apply", [False, True])
def test_another_stream_or_table_is_never_replaced_unasked(log, apply):
    text = STREAM.replace("rate DOUBLE", "rate FLOAT") + TABLE.replace("x DOUBLE", "x FLOAT")
    with pytest.raises(StatementError, match="stream traffic differs") as refused:
        StatementClient(log).compare(text, apply=apply)
    assert "table stock differs" in refused.value.reason
    assert "by: DROP QUERY inbound; DROP STREAM traffic; CREATE STREAM traffic" in refused.value.reason
    assert "by: DROP QUERY area; DROP TABLE stock; CREATE TABLE stock" in refused.value.reason
    assert load_catalogue(log).streams["traffic"].columns[-1].type == "DOUBLE"


def test_what_resolves_a_difference_does_resolve_it(log):
    text = STREAM.replace("rate DOUBLE", "rate FLOAT") + QUERY
    with pytest.raises(StatementError) as refused:
        StatementClient(log).compare(text)
    remedy = refused.value.reason.splitlines()[-1].partition("by: ")[2]
    say(log, remedy)
    comparison = StatementClient(log).compare(text)
    assert (comparison.to_send, comparison.altered) == ((), ())
    assert render(load_catalogue(log).queries["inbound"]) + ";\n" == QUERY


def test_what_the_log_lacks_is_sent_beside_what_differs(log):
    say(log, "ALTER QUERY inbound WITHIN 3")
    text = STREAM + QUERY + "CREATE QUERY most AS SELECT MAX(rate) FROM traffic WITHIN 2;\n"
    comparison = StatementClient(log).compare(text)
    assert [statement.about for statement in comparison.to_send] == ["most"]
    assert len(comparison.altered) == 1
