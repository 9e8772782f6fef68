"""Which inputs of a view equalities link, and that more than one product of two is refused, wherever it is read."""

import pytest
from sqlglot import parse_one

from tolerant.sql import Catalogue, StatementError, decode, encode, parse
from tolerant.sql.join_links import join_links
from tolerant.sql.view_select import delta_sql, plan_of

TABLES = [parse(f"CREATE TABLE {name} (x INT, y INT) KEY (x)") for name in ("r", "s", "t")]


@pytest.mark.parametrize(
    ("condition", "groups", "pairs"),
    [
        ("a.x = b.x", [(0, 1), (2,), (3,)], [(0, 1)]),
        ("a.x = b.x AND (c.x <=> b.y + 1) AND d.x = c.y", [(0, 1, 2, 3)], [(0, 1), (1, 2), (2, 3)]),
        ("d.x = a.x AND b.x = c.x", [(0, 3), (1, 2)], [(0, 3), (1, 2)]),
        ("COALESCE(a.x, b.x) = c.x", [(0,), (1,), (2,), (3,)], []),
        ("COALESCE(a.x, b.x) = c.x AND a.x = b.x", [(0, 1, 2), (3,)], [(0, 1), (1, 2)]),
        ("a.x + b.x = c.x + d.x AND a.x = b.x AND c.x = d.x", [(0, 1), (2, 3)], [(0, 1), (2, 3)]),
        ("a.x = b.x OR b.x = c.x", [(0,), (1,), (2,), (3,)], []),
        ("NOT a.x = b.x AND a.x < b.x AND a.x BETWEEN b.x AND c.x", [(0,), (1,), (2,), (3,)], []),
        ("a.x = 1 AND b.x = 1 AND a.x = a.y AND a.x - b.x = a.y", [(0,), (1,), (2,), (3,)], []),
    ],
)
def test_links(condition, groups, pairs):
    links = join_links([parse_one(condition)], list("abcd"))
    assert list(links.groups) == groups
    assert sorted(links.pairs) == pairs


def test_groups_are_joined_by_their_last_inputs():
    links = join_links([parse_one("a.x = c.x AND b.x = d.x")], list("abcd"))
    assert links.joined == ((0, 2), (1, 3), (2, 3))


@pytest.mark.parametrize(
    "joined",
    [
        "r",
        "r CROSS JOIN s",
        "r JOIN s ON r.x < s.x",
        "r a JOIN r b ON a.x BETWEEN b.x AND b.y",
        "r JOIN s USING (x) JOIN t USING (x)",
        "r, s, t WHERE r.x = s.x AND s.y = t.y AND r.y < t.x",
        "r JOIN s ON r.x = s.x CROSS JOIN t",
        "r a JOIN r b ON a.x = b.x JOIN s c ON c.x = b.y JOIN s d ON d.y = c.y JOIN t ON t.x < d.x",
        "r a JOIN r b USING (x) JOIN s c USING (x) JOIN s d USING (x) JOIN t USING (x)",
    ],
)
def test_one_product_of_two_is_a_view(joined):
    plan = plan_of(f"SELECT COUNT(*) AS n FROM {joined}", TABLES)
    assert len(plan.joined) >= len(plan.occurrences) - 1
    for table in plan.tables:
        terms = delta_sql(plan, table).count(" AS w FROM ")
        assert delta_sql(plan, table).count("tolerant_running(") == terms * len(plan.joined)


@pytest.mark.parametrize(
    ("joined", "message"),
    [
        ("r, s, t", "every row of r with every row of s and of t"),
        ("r JOIN s ON r.x < s.x JOIN t ON t.x < s.x", "every row of r with every row of s and of t"),
        ("r a, r b, s c, s d WHERE a.x = b.x", "every row of a with b with every row of c and of d"),
        (
            ", ".join(f"r a{place}" for place in range(16)),
            "every row of a0 with every row of a1 and of a2 and of 13 more",
        ),
        ("r JOIN s ON r.x = s.x OR r.y = s.y JOIN t ON TRUE", "every row of r with every row of s and of t"),
    ],
)
def test_more_is_refused_by_who_writes_it_and_by_who_reads_it(joined, message):
    text = f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM {joined} REFRESH WITHIN '5 s'"
    catalogue = Catalogue()
    for table in TABLES:
        catalogue.record(table)
    with pytest.raises(StatementError) as refused:
        parse(text, catalogue)
    assert f"the view joins {message}: at most 2 inputs may be joined without an equality" in str(refused.value)
    assert "ON a.x = b.y" in refused.value.hint
    assert refused.value.column > 1
    outcome = catalogue.apply(decode(encode(parse(text))))
    assert not outcome.accepted
    assert message in outcome.message
