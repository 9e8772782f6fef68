"""SELECTs over rows, asked once: against DuckDB, and what they refuse."""

import math
import random
import time

import duckdb
import pytest

from tolerant.sql import Catalogue, SelectRows, StatementError, parse
from tolerant.sql.row_selects import MOST_ROWS, read_select

TABLE = parse("CREATE TABLE stock (id INT, big BIGINT, x DOUBLE, name STRING, live BOOLEAN) KEY (id)")
CATALOGUE = Catalogue([TABLE, parse("CREATE STREAM s (a STRING, v DOUBLE) KEY (a)")])
NAMES = ("id", "big", "x", "name", "live")
BUDGET = 10.0
"""Seconds of random SELECTs."""


def rows_of(chance, size):
    texts = ["", "a", "b", "ab", "Ab", "é", "%", "it's", "_x"]
    return [
        {
            "id": number,
            "big": chance.choice([-3, 0, 1, 2, 2**53 + 1, -(2**62)]),
            "x": chance.choice([-2.5, 0.0, 0.5, 1.0, 1e6]),
            "name": chance.choice(texts),
            "live": chance.random() < 0.5,
        }
        for number in range(size)
    ]


def oracle(rows):
    duck = duckdb.connect()
    duck.execute("CREATE TABLE stock (id INTEGER, big BIGINT, x DOUBLE, name VARCHAR, live BOOLEAN)")
    if rows:
        duck.executemany(
            "INSERT INTO stock VALUES (?, ?, ?, ?, ?)", [tuple(row[name] for name in NAMES) for row in rows]
        )
    return duck


class Writer:
    """Random SELECTs, each in our words and in DuckDB's, which differ in what a division by 0 is."""

    def __init__(self, chance):
        self.chance = chance

    def number(self, depth=2):
        chance = self.chance
        kind = chance.randrange(6 if depth else 2)
        if chance.random() < 0.1:
            return "(x / 0)", "(x / NULLIF(0, 0))"  # NULL
        if kind == 0:
            return self.both(chance.choice(["id", "x"]))
        if kind == 1:
            return self.both(chance.choice(["0", "1", "2", "-3", "0.5", "7"]))
        a, b = self.number(depth - 1), self.number(depth - 1)
        if kind == 5:
            op = chance.choice(["/", "%"])
            return f"({a[0]} {op} {b[0]})", f"(({a[1]}) {op} NULLIF({b[1]}, 0))"
        op = chance.choice(["+", "-", "*"])
        return f"({a[0]} {op} {b[0]})", f"({a[1]} {op} {b[1]})"

    def condition(self, depth=2):
        chance = self.chance
        kind = chance.randrange(9 if depth else 6)
        if kind == 0:
            return self.both("live")
        if kind == 1:
            a, b, op = self.number(1), self.number(1), chance.choice(["=", "<>", "<", "<=", ">", ">="])
            return f"{a[0]} {op} {b[0]}", f"{a[1]} {op} {b[1]}"
        if kind == 2:
            return self.both(chance.choice(["name LIKE 'a%'", "NOT name LIKE '_'", "name > 'a'", "name = 'it''s'"]))
        if kind == 3:
            return self.both(
                chance.choice(["id IN (1, 2, 3)", "name IN ('a', 'b')", "NOT x IN (0.5, 1)", "big > 9007199254740992"])
            )
        if kind == 4:
            a = self.number(1)
            return f"{a[0]} BETWEEN -1 AND 5", f"{a[1]} BETWEEN -1 AND 5"
        if kind == 5:
            a, word = self.number(1), chance.choice(["IS NULL", "IS NOT NULL"])
            return f"{a[0]} {word}", f"{a[1]} {word}"
        if kind == 6:
            a = self.condition(depth - 1)
            return f"(NOT {a[0]})", f"(NOT {a[1]})"
        a, b, op = self.condition(depth - 1), self.condition(depth - 1), chance.choice(["AND", "OR"])
        return f"({a[0]} {op} {b[0]})", f"({a[1]} {op} {b[1]})"

    def aggregate(self):
        chance = self.chance
        if chance.random() < 0.3:
            return self.both(chance.choice(["COUNT(*)", "COUNT(DISTINCT name)", "MIN(name)", "MAX(live)", "SUM(big)"]))
        fn, a = chance.choice(["COUNT", "SUM", "AVG", "MIN", "MAX"]), self.number(1)
        word = "DISTINCT " if chance.random() < 0.2 else ""
        return f"{fn}({word}{a[0]})", f"{fn}({word}{a[1]})"

    def both(self, text):
        return text, text

    def select(self):
        """Both texts, and whether the order of the rows is told."""
        chance = self.chance
        grouped = chance.random() < 0.5
        keys = chance.sample(["name", "live", "id % 3"], chance.randrange(3)) if grouped else []
        if grouped:
            outputs = [self.both(key) for key in keys] + [self.aggregate() for _ in range(chance.randint(1, 2))]
        else:
            outputs = [
                chance.choice([self.number(), self.both("name"), self.condition(1)])
                for _ in range(chance.randint(1, 3))
            ]
        distinct = "DISTINCT " if chance.random() < 0.2 else ""
        where = self.condition() if chance.random() < 0.7 else None
        having = self.aggregate() if grouped and chance.random() < 0.3 else None
        texts = []
        for side in (0, 1):
            listed = ", ".join(f"{output[side]} AS c{at}" for at, output in enumerate(outputs))
            text = f"SELECT {distinct}{listed} FROM stock"
            text += f" WHERE {where[side]}" if where else ""
            text += f" GROUP BY {', '.join(keys)}" if keys else ""
            text += f" HAVING {having[side]} IS NOT NULL" if having else ""
            texts.append(text)
        order = chance.random() < 0.5
        if order:
            down = [chance.random() < 0.5 for _ in outputs]
            ours = ", ".join(f"c{at} DESC" if desc else f"{at + 1}" for at, desc in enumerate(down))
            theirs = ", ".join(
                f"c{at} DESC NULLS LAST" if desc else f"c{at} ASC NULLS FIRST" for at, desc in enumerate(down)
            )
            limit = f" LIMIT {chance.randrange(4)} OFFSET {chance.randrange(3)}" if chance.random() < 0.5 else ""
            texts = [f"{texts[0]} ORDER BY {ours}{limit}", f"{texts[1]} ORDER BY {theirs}{limit}"]
        return *texts, order


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


def by_all(row):
    return tuple((value is not None, round(value, 6) if isinstance(value, float) else value) for value in row)


def test_random_selects_give_what_duckdb_gives():
    chance, end, done = random.Random(5), time.monotonic() + BUDGET, 0
    while time.monotonic() < end or done < 50:
        rows = rows_of(chance, chance.choice([0, 1, 5, 20]))
        duck = oracle(rows)
        writer = Writer(chance)
        for _ in range(25):
            ours, theirs, ordered = writer.select()
            found = [tuple(row.values()) for row in read_select(ours, TABLE).run(rows)]
            expected = duck.execute(theirs).fetchall()
            if not ordered:
                found, expected = sorted(found, key=by_all), sorted(expected, key=by_all)
            assert len(found) == len(expected), ours
            assert all(
                same(a, b) for row, other in zip(found, expected, strict=True) for a, b in zip(row, other, strict=True)
            ), f"{ours}\n{found}\n{expected}"
            done += 1
        duck.close()
    assert done >= 50


ROWS = [{"id": n, "big": n, "x": n / 2, "name": "ab"[n % 2], "live": n == 1} for n in range(4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT s.* FROM stock s WHERE s.id = 1", [ROWS[1]]),
        ("SELECT COUNT(*) FROM stock WHERE id > 9", [{"COUNT(*)": 0}]),
        ("SELECT SUM(x), MIN(x) AS least FROM stock WHERE id > 9", [{"SUM(x)": None, "least": None}]),
        ("SELECT name, COUNT(*) FROM stock WHERE id > 9 GROUP BY name", []),
        ("SELECT name AS n, SUM(id) AS s FROM stock GROUP BY n HAVING s > 2 ORDER BY s", [{"n": "b", "s": 4}]),
        ("SELECT x / 0 AS q FROM stock WHERE id = 1", [{"q": None}]),
        ("SELECT -7 % 3 AS q FROM stock LIMIT 1", [{"q": -1}]),
        ("SELECT SUM(big * 9007199254740993) AS q FROM stock", [{"q": 6 * 9007199254740993}]),
        ("SELECT id FROM stock WHERE NULL", []),
        ("SELECT id FROM stock ORDER BY x / (id - 1), id DESC LIMIT 2", [{"id": 1}, {"id": 0}]),
    ],
)
def test_selects(text, expected):
    assert read_select(text, TABLE).run(ROWS) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT reflect('java.lang.System', 'getenv', 'X') FROM stock", "expected a column, a constant"),
        ("SELECT java_method('a', 'b') FROM stock", "expected a column, a constant"),
        ("SELECT repeat('a', 1000000000) FROM stock", "expected a column, a constant"),
        ("SELECT CAST(x AS INT) FROM stock", "expected a column, a constant"),
        ("SELECT input_file_name() FROM stock", "expected a column, a constant"),
        ("SELECT __import__('os') FROM stock", "expected a column, a constant"),
        ("SELECT id FROM stock WHERE id = (SELECT MAX(id) FROM stock)", "has no SELECT inside"),
        ("SELECT id FROM stock UNION SELECT id FROM stock", "expected a single SELECT"),
        ("WITH t AS (SELECT 1) SELECT id FROM stock", "expected CREATE, ALTER"),
        ("SELECT id FROM stock s JOIN stock t ON s.id = t.id", "a SELECT over rows has no JOINS"),
        ("SELECT SUM(x) OVER (PARTITION BY name) FROM stock", "expected a column, a constant"),
        ("SELECT id FROM stock WHERE name = 1", "expected a text to compare with a text, found 1"),
        ("SELECT id FROM stock WHERE x", "expected a truth value"),
        ("SELECT name + 1 FROM stock", "expected a number, found name"),
        ("SELECT SUM(name) FROM stock", "expected a number, found name"),
        ("SELECT y FROM stock", "table stock has no column y"),
        ("SELECT id, COUNT(*) FROM stock", "expected an aggregate or a column of GROUP BY, found id"),
        ("SELECT SUM(COUNT(*)) FROM stock", "expected an expression without aggregates"),
        ("SELECT id FROM stock WHERE COUNT(*) > 1", "expected an expression without aggregates"),
        ("SELECT id FROM stock GROUP BY COUNT(*)", "expected an expression without aggregates in GROUP BY"),
        ("SELECT id FROM stock LIMIT 1.5", "expected a whole number after LIMIT"),
        ("SELECT id FROM stock ORDER BY 2", "expected a number from 1 to 1"),
        ("SELECT DISTINCT id FROM stock ORDER BY x", "a column of the SELECT in ORDER BY"),
        ("SELECT id, id FROM stock", "two columns are called id"),
        ("SELECT v FROM s", "expected a table, found the stream s"),
        ("SELECT id FROM stok", "there is no table stok"),
        ("SELECT id", "expected FROM and the name of a table"),
        ("SELECT id FROM stock WITHIN 5", "expected a SELECT over a table, which has no such clauses"),
        ("SELECT id FROM stock WHERE name LIKE '\\\\a'", "must stand before"),
        (f"SELECT id FROM stock WHERE {'NOT ' * 3000} live", "nested too deeply"),
    ],
)
def test_what_is_refused_is_refused_before_any_row_is_read(text, reason):
    with pytest.raises(StatementError, match=reason.replace("(", r"\(").replace("*", r"\*")) as error:
        parse(text, CATALOGUE)
    assert error.value.line == 1


def test_a_long_chain_is_no_nesting():
    text = "SELECT COUNT(*) AS n FROM stock WHERE " + " OR ".join(["id = 1"] * 2000)
    assert read_select(text, TABLE).run(ROWS) == [{"n": 1}]


def test_too_large_a_number_is_said():
    with pytest.raises(StatementError, match=r"x \* 1e308 is too large a number"):
        read_select("SELECT x * 1e308 FROM stock", TABLE).run([{**ROWS[0], "x": 100.0}])


def test_many_rows_need_a_limit():
    many = [{**ROWS[0], "id": number} for number in range(MOST_ROWS + 1)]
    with pytest.raises(StatementError, match="gives 10,001 rows, more than 10,000"):
        read_select("SELECT id FROM stock", TABLE).run(many)
    assert len(read_select("SELECT id FROM stock LIMIT 10001", TABLE).run(many)) == 10_001


def test_the_statement_is_read_with_its_place():
    statement = parse("\n SELECT id\nFROM stock", CATALOGUE)
    assert statement == SelectRows("stock", "SELECT id\nFROM stock")
    with pytest.raises(StatementError) as error:
        parse("\n SELECT id,\n  y FROM stock", CATALOGUE)
    assert (error.value.line, error.value.column) == (3, 3)


@pytest.mark.parametrize("part", ["::INT", " IS NULL", "[0]", " + 1", " BETWEEN 1 AND 2"])
def test_whatever_is_nested_too_deeply_is_refused_as_such(part):
    table = parse("CREATE TABLE deep (a INT) KEY (a)")
    with pytest.raises(StatementError):
        read_select("SELECT a" + part * 1000 + " FROM deep", table)
