"""No encoded statement, however it came into the log, does more than be refused: through `decode` and
`Catalogue.apply` only the documented errors, no hang, bounded memory, and a catalogue that a refusal leaves as it was.
"""

import random
import resource
import signal
import time
from contextlib import contextmanager

import pytest
from encoded_statements import EVIL_EXPRESSIONS, EVIL_SELECTS, crafted, known, mutated, valid, view

from tolerant.kinds.views.select import ViewSelect
from tolerant.sql import CreateQuery, StatementError, decode, encode, parse, parse_many, render
from tolerant.sql.view_select import plan_of

BUDGET = 12.0
"""Seconds of mutations in an ordinary run."""

LONGEST = 60
"""Seconds after which one statement counts as a hang."""

MOST_MEMORY = 400 << 10
"""KiB by which a process may grow over all statements."""

KNOWN = known()


@contextmanager
def no_hang(what):
    def stop(number, frame):
        raise AssertionError(f"took longer than {LONGEST} s: {what!r:.500}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def content(catalogue):
    return dict(catalogue.streams), dict(catalogue.tables), dict(catalogue.queries)


def take(text):
    """What becomes of an encoded statement: its outcome, None if it is none."""
    with no_hang(text):
        try:
            statement = decode(text)
        except ValueError:
            return None
        catalogue = KNOWN.copy()
        outcome = catalogue.apply(statement)
        if not outcome.changed:
            assert content(catalogue) == content(KNOWN), text
            return outcome
        check_accepted(catalogue, statement)
        return outcome


def check_accepted(catalogue, statement):
    """What was accepted can be shown, restored from a snapshot, and told to who asks."""
    assert decode(encode(statement)) == statement
    assert isinstance(render(statement), str)
    again = KNOWN.copy()
    assert again.apply(decode(encode(statement))).accepted
    assert content(again) == content(catalogue)
    if isinstance(statement, CreateQuery) and isinstance(statement.select, ViewSelect):
        plan_of(statement.select.sql, catalogue.tables_of(statement))


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_valid_statements_are_read_as_they_were_written():
    texts = valid()
    assert len(texts) > 100
    assert all(encode(decode(text)) == text for text in texts)
    assert sum(take(text).accepted for text in texts) > 80


@pytest.mark.parametrize("text", crafted(), ids=lambda text: ascii(text[-80:]))
def test_crafted_statements_are_refused(text):
    outcome = take(text)
    assert outcome is None or not outcome.accepted or '"AlterQuery"' in text or text.count('"<>"') == 5000


def mutate(seeds, end=None):
    texts, begun, accepted, count = valid() + [t for t in crafted() if len(t) < 5000], memory(), 0, 0
    for seed in seeds:
        text = mutated(random.Random(seed), texts)
        try:
            outcome = take(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text[:2000]!r}") from error
        accepted += outcome is not None and outcome.accepted
        count += 1
        if end is not None and time.monotonic() > end:
            break
    assert memory() - begun < MOST_MEMORY
    return count, accepted


def test_mutated_statements():
    count, accepted = mutate(range(100_000), time.monotonic() + BUDGET)
    assert count > 100
    assert 0 < accepted < count


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_mutated_statements():
    count, accepted = mutate(range(100_000))
    assert count == 100_000
    assert 0 < accepted < count


@pytest.mark.parametrize("expression", EVIL_EXPRESSIONS)
def test_no_view_evaluates(expression):
    """Refused when its sender parses it, where it stands, and again when it is read from the log."""
    for select in (f"SELECT {expression} AS v FROM parts", f"SELECT b FROM parts WHERE b = 1 AND {expression} = 1"):
        text = f"CREATE QUERY q AS {select} REFRESH WITHIN '5 s'"
        with pytest.raises(StatementError) as refused:
            parse(text, KNOWN)
        assert refused.value.line == 1
        assert refused.value.column > 1
        assert not take(view(select)).accepted


def test_a_refusal_says_where_and_what_is_allowed():
    with pytest.raises(StatementError) as refused:
        parse("CREATE QUERY q AS\n SELECT a, reflect('x', 'y') AS v FROM parts REFRESH WITHIN '5 s'")
    assert (refused.value.line, refused.value.column) == (2, 12)
    assert "the function REFLECT" in refused.value.reason
    assert "ABS" in refused.value.hint
    assert "SUBSTRING" in refused.value.hint


@pytest.mark.parametrize("select", EVIL_SELECTS, ids=lambda select: ascii(select[:60]))
def test_no_view_is(select):
    assert not take(view(select)).accepted
    with pytest.raises(StatementError):
        parse_many(f"CREATE QUERY q AS {select} REFRESH WITHIN '5 s'", KNOWN)
