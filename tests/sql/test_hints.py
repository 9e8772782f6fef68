"""Hints lead somewhere: following them ends at a statement that is accepted, or at a reason that is final."""

import re
from pathlib import Path

import pytest

from tolerant.sql import Catalogue, LocalStatement, StatementError, parse, parse_many

FIXTURES = Path(__file__).parent / "fixtures"
LONGEST = 4
"""Hints that somebody may have to follow."""


def between(text):
    return re.sub(r" (WITHIN|FIDELITY) [\d.]+", "", text) + " WHERE y BETWEEN 0 AND 10"


def refresh(text):
    return re.sub(r" (WITHIN|FIDELITY) [\d.]+", "", text) + " REFRESH WITHIN '10 s'"


# What a hint begins with (or has in it) → what somebody who follows it writes; several: each must lead somewhere.
FOLLOWED = {
    r"how wrong may the answer be\? Add WITHIN": [lambda text, _: f"{text} WITHIN 0"],
    r"exact over a range: add WHERE and one column BETWEEN two numbers; or REFRESH WITHIN '10 s' makes it a view": [
        lambda text, _: between(text),
        lambda text, _: refresh(text),
    ],
    r"a table has no tolerance: REFRESH WITHIN '10 s' makes it a view": [lambda text, _: refresh(text)],
    r"a query that stands is named, CREATE QUERY name AS SELECT …; asked once, over a table, it has no such clause": [
        lambda text, _: f"CREATE QUERY name AS {text}",
        lambda text, _: re.sub(r" WITHIN \d+", "", text),
    ],
    r"the values of a stream are at its sources: CREATE QUERY name AS SELECT … FROM \w+ WITHIN …": [
        lambda text, _: f"CREATE QUERY name AS {text} WITHIN 5"
    ],
    r"a stream is asked for SUM, AVG, MIN, MAX or COUNT of its value, WITHIN a tolerance": [
        lambda text, _: re.sub(r"SELECT .* FROM (\w+).*", r"SELECT SUM(rate) FROM \1 WITHIN 5", text)
    ],
    r"one query has one answer: make a query of each": [lambda text, _: re.sub(r", \w+\(\w+\)", "", text)],
    r"add GROUP BY (\w+), or leave the column out": [
        lambda text, found: text.replace(" WITHIN", f" GROUP BY {found[1]} WITHIN")
    ],
    r"add GROUP BY (\w+), or aggregate it": [lambda text, found: f"{text} GROUP BY {found[1]}"],
    r"add GROUP BY (\w+), or WHERE \w+ = …": [
        lambda text, found: text.replace(" WITHIN", f" GROUP BY {found[1]} WITHIN"),
        lambda text, found: text.replace(" WITHIN", f" WHERE {found[1]} = 'north' WITHIN"),
    ],
    r"put the stream first: FROM (\w+) JOIN (\w+)": [
        lambda text, _: re.sub(r"FROM (\w+ \w) JOIN (\w+ \w)", r"FROM \2 JOIN \1", text)
    ],
    r"KEEP n ROWS keeps the best n": [lambda text, _: f"{text} KEEP 100 ROWS"],
    r"did you mean (\w+)\?": [
        lambda text, found: re.sub(r"(FROM|TO|INTO|QUERY|SUBSCRIBE) \w+", rf"\1 {found[1]}", text)
    ],
    r"(SHOW \w+) says which there are": [lambda text, found: found[1]],
    r"drop first: (.*)": [lambda text, found: f"{found[1]}; {text}"],
    r"(ALTER QUERY \w+ WITHIN [\d.]+)": [lambda text, found: found[1]],
    r"(DROP \w+ \w+) first, or take another name": [lambda text, found: f"{found[1]}; {text}"],
    r"nothing lies between them; were the ends swapped\?": [
        lambda text, _: re.sub(r"\((\d+), (\d+)\)", r"(\2, \1)", re.sub(r"N (\d+) AND (\d+)", r"N \2 AND \1", text))
    ],
    r"leave FIDELITY out, or create the stream FROM": [lambda text, _: re.sub(r" FIDELITY [\d.]+", "", text)],
    r"select their keys first: (SELECT .*) WHERE …": [lambda text, found: f"{found[1]} WHERE x > 3"],
    r"name one with AS": [lambda text, _: text.replace("SELECT id", "SELECT id AS one", 1)],
    r"or join a table of weights: its rows name the items": [
        lambda text, _: text.replace(
            "AVG(price) FROM quotes", "AVG(q.price * h.shares) FROM quotes q JOIN holdings h ON q.symbol = h.symbol"
        )
    ],
}
# Reasons that are final: they say why it cannot be, and leave nothing to try.
FINAL = (
    "which items count must not depend on values",
    "it has id, x, y, price",
    "this is ",
    "CREATE TABLE … FROM 'file.csv'",
    "the values of a stream come from its sources",
)


@pytest.fixture
def catalogue():
    catalogue = Catalogue()
    for statement in parse_many((FIXTURES / "catalogue.sql").read_text(), catalogue):
        catalogue.record(statement)
    return catalogue


def error_of(text, catalogue):
    """What is wrong with statements; None: they are accepted."""
    known = catalogue.copy()
    try:
        for statement in parse_many(text, known):
            if not isinstance(statement, LocalStatement):
                known.record(statement)
    except StatementError as error:
        return error
    return None


def follow(text, catalogue, met=()):
    error = error_of(text, catalogue)
    if error is None or not error.hint or any(final in error.hint for final in FINAL):
        return
    assert text not in met, f"a circle: {[*met, text]}"
    assert len(met) < LONGEST, f"hint after hint: {[*met, text]}"
    rules = [(re.search(pattern, error.hint), edits) for pattern, edits in FOLLOWED.items()]
    found = [(match, edits) for match, edits in rules if match]
    assert found, f"nobody knows how to follow {error.hint!r} of {text!r}"
    match, edits = found[0]
    for edit in edits:
        follow(edit(text, match), catalogue, (*met, text))


STATEMENTS = [
    "CREATE QUERY q AS SELECT MIN(x) FROM stock",
    "CREATE QUERY q AS SELECT MIN(x) FROM stock WITHIN 0",
    "CREATE QUERY q AS SELECT COUNT(*) FROM stock",
    "CREATE QUERY q AS SELECT COUNT(*) FROM stock WITHIN 3 FIDELITY 0.5",
    "CREATE QUERY q AS SELECT MIN(x) FROM stock WHERE id = 3",
    "CREATE QUERY q AS SELECT MIN(x) FROM stock WHERE x BETWEEN 1 AND 2 AND y BETWEEN 1 AND 2",
    "CREATE QUERY q AS SELECT SUM(2 * x) FROM stock",
    "CREATE QUERY q AS SELECT id, MIN(x) FROM stock GROUP BY id",
    "CREATE QUERY q AS SELECT id, MIN(x) FROM stock WITHIN 3",
    "CREATE QUERY q AS SELECT MIN(x), MAX(x) FROM stock",
    "CREATE QUERY q AS SELECT x FROM stock",
    "CREATE QUERY q AS SELECT DISTINCT x FROM stock",
    "CREATE QUERY q AS SELECT SUM(s.a * d.c) FROM supply s JOIN demand d ON s.id = d.id WITHIN 5",
    "CREATE QUERY q AS SELECT SUM(w.weight * t.rate) FROM weights w JOIN traffic t ON t.host = w.host WITHIN 5",
    "CREATE QUERY q AS SELECT SUM(s.price * t.rate) FROM stock s JOIN traffic t ON t.host = s.id WITHIN 5",
    "CREATE QUERY q AS SELECT AVG(rate) FROM traffic",
    "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WHERE rate BETWEEN 1 AND 2",
    "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WHERE host BETWEEN 'a' AND 'b'",
    "CREATE QUERY q AS SELECT AVG(rate), MIN(rate) FROM traffic WITHIN 3",
    "CREATE QUERY q AS SELECT host, AVG(rate) FROM traffic WITHIN 3",
    "CREATE QUERY q AS SELECT host FROM traffic",
    "CREATE QUERY q AS SELECT * FROM traffic",
    "CREATE QUERY q AS SELECT * FROM traffic WHERE rate BETWEEN 1 AND 2",
    "CREATE QUERY q AS SELECT MAX(speed) FROM fleet WITHIN 3",
    "CREATE QUERY q AS SELECT MAX(rate) FROM trafic WITHIN 3",
    "CREATE QUERY q AS SELECT MAX(rate) FROM nothing WITHIN 3",
    "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WITHIN 3 FIDELITY 0.9",
    "CREATE QUERY q AS SELECT AVG(price) FROM quotes WITHIN 0.5 FIDELITY 0.98",
    "CREATE QUERY q AS SELECT * FROM supply r JOIN demand s ON r.b = s.b",
    "CREATE QUERY q AS SELECT * FROM stock WHERE x BETWEEN 9 AND 1",
    "CREATE QUERY busiest AS SELECT MAX(rate) FROM traffic WHERE kind = 'in' WITHIN 3",
    "CREATE QUERY busiest AS SELECT MIN(rate) FROM traffic WITHIN 3",
    "CREATE TABLE stock (id INT) KEY (id)",
    "DROP STREAM traffic",
    "DROP QUERY bussiest",
    "SUBSCRIBE area(60, 20)",
    "SUBSCRIBE arae(20, 60)",
    "SHOW SUBSCRIPTIONS TO arae",
    "SELECT AVG(rate) FROM traffic",
    "SELECT MIN(x) FROM stock WITHIN 0",
    "SELECT AVG(rate) FROM traffic WITHIN 3",
    "SELECT id, MIN(x) FROM stock",
    "SELECT id, id FROM stock",
    "SELECT weight FROM stock",
    "SELECT x FROM stok",
    "DELETE FROM stock WHERE x = 3",
    "INSERT INTO traffic VALUES (1)",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_hints_lead_to_what_is_accepted_or_final(text, catalogue):
    assert error_of(text, catalogue) is not None, "the statement is accepted: nothing is tested"
    follow(text, catalogue)


def test_a_table_is_not_told_to_add_a_tolerance(catalogue):
    with pytest.raises(StatementError) as error:
        parse("CREATE QUERY q AS SELECT MIN(x) FROM stock", catalogue)
    assert error.value.reason == "expected BETWEEN or REFRESH WITHIN: stock is a table"
    with pytest.raises(StatementError, match="Add WITHIN and a number"):
        parse("CREATE QUERY q AS SELECT MIN(x) FROM stock")  # what stock is, nobody knows
