"""Statements and what becomes of them, as text: a block with the statement, a block with what is expected, and so on.

Lines that begin with `# ` before a statement are remarks. `definitions`, `queries` and `others`: the statement as SQL
in its one way, then as JSON. `later`: the same, then why it is refused for now. `errors`: what a person is shown.
"""

from pathlib import Path

import pytest

from tolerant.sql import (
    Catalogue,
    LocalStatement,
    NotAvailable,
    StatementError,
    decode,
    encode,
    parse,
    parse_many,
    render,
)

FIXTURES = Path(__file__).parent / "fixtures"


def cases(*names):
    found = []
    for name in names:
        blocks = [block for block in (FIXTURES / f"{name}.txt").read_text().split("\n\n") if block.strip()]
        for statement, expected in zip(blocks[::2], blocks[1::2], strict=True):
            text = "\n".join(line for line in statement.split("\n") if not line.startswith("# "))
            found.append(pytest.param(text, expected.strip("\n"), id=f"{name}: {text[:60]}"))
    return found


@pytest.fixture
def catalogue():
    catalogue = Catalogue()
    for statement in parse_many((FIXTURES / "catalogue.sql").read_text(), catalogue):
        catalogue.record(statement)
    return catalogue


@pytest.mark.parametrize(("text", "expected"), cases("definitions", "queries", "others"))
def test_accepted(text, expected, catalogue):
    statement = parse(text, catalogue)
    assert f"{render(statement)}\n{encode(statement)}" == expected


@pytest.mark.parametrize(("text", "expected"), cases("later"))
def test_understood_but_not_available(text, expected, catalogue):
    with pytest.raises(NotAvailable, match="not available yet") as refused:
        parse(text, catalogue)
    statement = parse(text)
    assert f"{render(statement)}\n{encode(statement)}\n{refused.value.reason}" == expected
    assert not catalogue.apply(statement).accepted


@pytest.mark.parametrize(("text", "expected"), cases("errors"))
def test_errors(text, expected, catalogue):
    with pytest.raises(StatementError) as error:
        parse_many(text, catalogue)
    assert str(error.value) == expected
    assert error.value.line is not None
    assert error.value.column is not None


@pytest.mark.parametrize(("text", "expected"), cases("definitions", "queries", "others", "later"))
def test_rendering_and_wire_lead_back(text, expected, catalogue):
    statement = parse(text)
    assert parse(render(statement)) == statement
    assert decode(encode(statement)) == statement
    assert render(decode(encode(statement))) == render(statement)


@pytest.mark.parametrize(("text", "expected"), cases("definitions", "queries"))
def test_the_catalogue_says_what_the_parser_says(text, expected, catalogue):
    """A statement that the sender accepted is accepted by those who read it, but for weights that are not filled in."""
    outcome = catalogue.apply(parse(text, catalogue))
    assert outcome.accepted or "weights are missing" in outcome.message


@pytest.mark.parametrize(("text", "expected"), cases("errors"))
def test_what_parses_alone_is_refused_by_the_catalogue(text, expected, catalogue):
    try:
        statements = parse_many(text)
    except StatementError:
        return
    outcomes = [catalogue.apply(s) for s in statements if not isinstance(s, LocalStatement)]
    assert not outcomes or not all(outcome.accepted for outcome in outcomes)
