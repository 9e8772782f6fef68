"""Encoded statements to throw at whoever reads the topic `queries`: valid ones, mutated ones and crafted ones."""

import copy
import json
import random
import re
from pathlib import Path

from tolerant.sql import Catalogue, encode, parse_many

FIXTURES = Path(__file__).parents[1] / "sql" / "fixtures"

DEFINITIONS = """
CREATE STREAM sensors (id INT, up BOOLEAN, level FLOAT) KEY (id, up) WITH (shards = 3, shard = id);
CREATE STREAM ticks (symbol STRING, n INT, price DOUBLE) KEY (symbol, n) FROM 'http://host/{symbol}/{n}';
CREATE TABLE shares (host STRING, kind STRING, weight DOUBLE) KEY (host, kind) FROM 'shares.csv';
CREATE TABLE parts (b INT, a DOUBLE, s STRING) KEY (b);
CREATE TABLE orders (b INT, c DOUBLE, s STRING) KEY (b);
CREATE QUERY held AS SELECT AVG(rate) FROM traffic WITHIN 5;
CREATE QUERY region(low, high) AS SELECT * FROM parts WHERE a BETWEEN low AND high;
CREATE QUERY total AS SELECT b, SUM(a) AS total FROM parts GROUP BY b REFRESH WITHIN '5 s';
"""

MORE = """
CREATE QUERY q AS SELECT host, SUM(2 * rate) FROM traffic WHERE kind = 'in' AND (host LIKE 'w%' OR NOT host IN ('a'))
  GROUP BY host WITHIN 5;
CREATE QUERY q AS SELECT id, MAX(level) FROM sensors WHERE up = TRUE AND id BETWEEN 1 AND 9 GROUP BY id WITHIN 0;
CREATE QUERY q AS SELECT SUM(price) FROM ticks WHERE symbol IN ('A', 'B') AND n BETWEEN 1 AND 50 WITHIN 5 FIDELITY 0.9;
CREATE QUERY q AS SELECT SUM(t.rate * w.weight) FROM traffic t JOIN shares w ON t.host = w.host AND t.kind = w.kind
  WITHIN 5;
CREATE QUERY q(low) AS SELECT MIN(a) FROM parts WHERE a BETWEEN low AND 10;
CREATE QUERY q(x, y) AS SELECT * FROM parts r JOIN orders t ON t.c - r.a BETWEEN x AND y WITH (shards = 2);
CREATE QUERY q(x) AS SELECT * FROM parts r JOIN orders t ON r.b = t.b
  WHERE r.a BETWEEN 1 AND x AND t.c BETWEEN 2 AND 3;
CREATE QUERY q AS SELECT * FROM parts r JOIN orders t ON r.b = t.b KEEP 9 ROWS;
CREATE QUERY q AS SELECT r.s, COUNT(*) AS n, SUM(CASE WHEN a > 1 THEN a ELSE 0 END) AS t, MIN(UPPER(t.s)) AS u
  FROM parts r JOIN orders t ON r.b = t.b WHERE a + c > 3 AND r.s LIKE 'x%' GROUP BY r.s REFRESH WITHIN '5 s'
  WHEN (SELECT COUNT(*) FROM orders WHERE c > 100) > 10 OR NOT (SELECT AVG(a) FROM parts) < 2;
CREATE QUERY q AS SELECT DISTINCT b, ROUND(a, 2) AS a FROM parts REFRESH WITHIN '1 min';
ALTER QUERY held WITHIN 2;
DROP QUERY held;
DROP TABLE orders;
SUBSCRIBE region(1, 2);
UNSUBSCRIBE region(1, 2.5);
SUBSCRIBE region FROM 'people.csv';
SHOW QUERIES;
"""

EVIL_EXPRESSIONS = [
    "reflect('java.lang.System', 'getenv', 'X')",
    "java_method('java.lang.System', 'exit', 1)",
    "try_reflect('a', 'b')",
    "raise_error('x')",
    "assert_true(FALSE)",
    "repeat('a', 1000000000)",
    "space(1000000000)",
    "lpad(s, 1000000000, 'x')",
    "rpad(s, 1000000000)",
    "sequence(1, 1000000000)",
    "explode(sequence(1, 1000000000))",
    "array_repeat(1, 1000000000)",
    "input_file_name()",
    "current_user()",
    "user()",
    "session_user()",
    "version()",
    "current_database()",
    "uuid()",
    "rand()",
    "now()",
    "unknown_function(a)",
    "my.schema.function(a)",
    "`reflect`('a', 'b')",
    "{fn now()}",
    "${env:HOME}",
    "'${env:HOME}'",
    "`${env:HOME}`",
    "$x",
    ":x",
    "?",
    "@x",
    "x'00'",
    "r'a'",
    "INTERVAL '1' DAY",
    "DATE '2026-01-01'",
    "CAST(a AS DATE)",
    "CAST(s AS BINARY)",
    "CAST(s AS ARRAY<INT>)",
    "ROUND(a, 1000000000)",
    "ROUND(a, -1000000000)",
    "ROUND(a, b)",
    "s RLIKE '(a+)+$'",
    "s ILIKE 'a'",
    "s LIKE '%a%a%a%a%a%a'",
    "s LIKE s",
    "regexp_replace(s, 'a', 'b')",
    "replace(s, 'a', 'aaaaaaaaaa')",
    "translate(s, 'a', 'b')",
    "concat_ws(',', s, s)",
    "hash(s)",
    "xxhash64(s)",
    "from_json(s, 'a INT')",
    "get_json_object(s, '$.a')",
    "xpath(s, 'a')",
    "s:a",
    "s[0]",
    "s.a.b.c",
    "named_struct('a', 1)",
    "struct(a)",
    "map(1, 2)",
    "array(1)",
    "(a, b)",
    "transform(array(1), x -> x)",
    "(SELECT 1)",
    "EXISTS(SELECT 1)",
    "a IN (SELECT b FROM orders)",
    "SUM(a) OVER ()",
    "COUNT()",
    "COUNT(DISTINCT a)",
    "COUNT(a, b)",
    "SUM()",
    "STDDEV(a)",
    "COLLECT_LIST(a)",
    "percentile(a, 0.5)",
    "FIRST(a)",
    "ANY_VALUE(a)",
    "SUM(a) FILTER (WHERE a > 1)",
    "AVG(SUM(a))",
    "IF(a)",
    "ai_query('m', s)",
    "http_request('x')",
    "ENCRYPT(s)",
    "aes_decrypt(s, s)",
    "CURRENT_DATE",
    "CURRENT_TIMESTAMP",
    "monotonically_increasing_id()",
    "spark_partition_id()",
    "GROUPING(a)",
    "a::variant",
    "TRY_CAST(a AS MAP<INT, INT>)",
    "TRIM('x' FROM s)",
    "EXTRACT(YEAR FROM s)",
    "year('now')",
    "to_date(s, 'yyyy')",
    "a <-> b",
    "a & 1",
    "~b",
    "kll_sketch_agg_bigint(b)",
    "stack(2, 1, 2)",
    "inline(array(struct(1)))",
    "posexplode(array(1))",
    "json_tuple(s, 'a')",
    "window(s, '1 hour')",
    "session_window(s, '1 hour')",
    "bitmap_count(s)",
    "sleep(10)",
    "pg_sleep(10)",
    "system('ls')",
]
"""Expressions over the columns a, b and s that no view may have."""

EVIL_SELECTS = [
    "SELECT /*+ BROADCAST(parts) */ a FROM parts",
    "SELECT /*+ COALESCE(1) */ a FROM parts",
    "SELECT a FROM parts LATERAL VIEW explode(array(1)) t AS x",
    "SELECT TRANSFORM(a) USING 'sh -c id' AS (x) FROM parts",
    "SELECT a FROM parts, LATERAL (SELECT 1)",
    "SELECT a FROM range(1000000000)",
    "SELECT a FROM VALUES (1) AS t(a)",
    "SELECT a FROM parquet.`/etc/passwd`",
    "SELECT a FROM csv.`/etc/passwd`",
    "SELECT a FROM IDENTIFIER('parts')",
    "SELECT a FROM parts TABLESAMPLE (5 ROWS)",
    "SELECT a FROM parts VERSION AS OF 1",
    "SELECT * EXCEPT (a) FROM parts",
    "SELECT a FROM parts PIVOT (SUM(a) FOR b IN (1))",
    "SELECT a FROM (SELECT * FROM parts)",
    "SELECT a FROM orders.parts",
    "WITH x AS (SELECT 1 AS a) SELECT a FROM x",
    "SELECT a FROM parts UNION ALL SELECT c FROM orders",
    "SELECT 1",
    "SELECT a FROM parts GROUP BY ROLLUP(a)",
    "SELECT a FROM parts GROUP BY ALL",
    "SELECT a FROM parts QUALIFY a > 1",
    "SELECT a FROM parts HAVING SUM(a) > 1",
    "SELECT a FROM parts ORDER BY a LIMIT 1",
    "SELECT a FROM parts WINDOW w AS ()",
    "SELECT a FROM parts NATURAL JOIN orders",
    "SELECT a FROM parts LEFT JOIN orders ON TRUE",
    "SELECT a FROM nowhere",
    "SELECT a FROM parts WHERE SUM(a) > 1",
    "SELECT a AS (x, y) FROM parts",
    "SELECT a FROM parts AS t(x, y, z)",
    "INSERT INTO parts VALUES (1)",
    "DROP TABLE parts",
    "SET x = 1",
    "ADD JAR 'x.jar'",
    "CREATE TABLE x AS SELECT 1",
    "SELECT a FROM parts; DROP TABLE parts",
    "EXPLAIN SELECT a FROM parts",
    "CACHE TABLE parts",
    "",
    " ",
    "SELECT",
    "(",
    "SELECT a FROM parts /*",
    "SELECT 'a FROM parts",
    "SELECT `a FROM parts",
    "\x00",
    "\ufeff",
    "SELECT " + "(" * 500 + "a" + ")" * 500 + " FROM parts",
    "SELECT " + "-" * 2000 + "a FROM parts",
    "SELECT " + "NOT " * 2000 + "a FROM parts",
    "SELECT a" + " + 1" * 20_000 + " FROM parts",
    "SELECT " + "CASE WHEN a > 1 THEN " * 300 + "a" + " END" * 300 + " FROM parts",
    "SELECT a FROM parts WHERE a > 1" + " AND a > 1" * 9_000,
    "SELECT " + "abs(" * 200 + "a" + ")" * 200 + " FROM parts",
]
"""Selects over `parts` that no view may be."""

_NESTED_NOT = '{"is":"Not","part":' * 300 + '{"is":"Compare","column":"host","op":"=","value":"a"}' + "}" * 300
_WHERE = (
    '{"is":"CreateQuery","name":"q","parameters":[],"select":{"is":"AggregateSelect","stream":"traffic","fn":"sum",\
"where":%s,"within":1.0,"column":"rate"}}'
)

CRAFTED = [
    "",
    "{",
    "null",
    "[]",
    '"x"',
    "1e999",
    "[" * 200_000,
    '{"a":' * 100_000,
    "NaN",
    "\x00",
    '{"is":"Drop"}',
    '{"is":null}',
    '{"is":"Drop","what":"query","name":"\\ud800"}',
    '{"is":"Drop","what":"query","name":"' + "x" * 100_000 + '"}',
    '{"is":"AlterQuery","name":"held","within":' + "9" * 5000 + "}",
    '{"is":"AlterQuery","name":"held","within":-1}',
    '{"is":"AlterQuery","name":"held","within":1e308}',
    '{"is":"AlterQuery","name":"total","within":1}',
    _WHERE % _NESTED_NOT,
    _WHERE % '{"is":"And","parts":[]}',
    _WHERE % '{"is":"Or","parts":[]}',
    _WHERE % '{"is":"In","column":"host","values":[]}',
    _WHERE % '{"is":"Like","column":"host","pattern":"\\\\","escape":""}',
    _WHERE % '{"is":"Compare","column":"\\udfff","op":"=","value":"a"}',
    _WHERE % '{"is":"Compare","column":"host","op":"=","value":{"is":"Parameter","name":"x"}}',
    _WHERE % '{"is":"Between","column":"host","low":1,"high":"a"}',
    _WHERE
    % ('{"is":"And","parts":[' + ",".join(['{"is":"Compare","column":"host","op":"<>","value":"a"}'] * 5000) + "]}"),
]

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    "",
    " ",
    "a",
    "host",
    "rate",
    "parts",
    "orders",
    "traffic",
    "held",
    "region",
    "q",
    "x" * 300,
    "\x00",
    "\u202e",
    "é",
    "`",
    "'",
    "\\",
    "${env:HOME}",
    [],
    [[]],
    {},
    {"is": "Not"},
    ["a", "b"],
    [["a", "a"]],
    {"is": "Parameter", "name": "low"},
    "STRING",
    "network.toml",
    "http://host/{symbol}",
    "kafka://x",
    "x.csv",
    "withhold",
    "distinct",
    "0",
    "7",
]
"""What a mutation puts in place of something else."""


def known() -> Catalogue:
    """A catalogue with streams of every kind, tables and queries."""
    catalogue = Catalogue()
    for statement in parse_many((FIXTURES / "catalogue.sql").read_text() + DEFINITIONS, catalogue):
        catalogue.record(statement)
    return catalogue


def valid() -> list[str]:
    """Encoded statements of every kind, as senders write them."""
    lines = [line for file in sorted(FIXTURES.glob("*.txt")) for line in file.read_text().splitlines()]
    texts = [line for line in lines if line.startswith('{"is":')]
    texts += [encode(statement) for statement in parse_many(DEFINITIONS + MORE)]
    return list(dict.fromkeys(texts))


def view(sql: str, tables: tuple[str, ...] = ("parts",)) -> str:
    """An encoded view with this select, whatever it says."""
    select = {"is": "ViewSelect", "sql": sql, "tables": list(tables), "refresh": 5_000_000, "when": None}
    return json.dumps({"is": "CreateQuery", "name": "q", "parameters": [], "select": select})


def crafted() -> list[str]:
    """Encoded statements that are wrong each in its own way."""
    views = [view(f"SELECT {expression} AS v FROM parts") for expression in EVIL_EXPRESSIONS]
    views += [view(f"SELECT b FROM parts WHERE {expression} IS NULL") for expression in EVIL_EXPRESSIONS]
    views += [view(select) for select in EVIL_SELECTS]
    views += [view("SELECT a FROM parts", tables) for tables in ((), ("orders",), ("parts", "orders"), ("traffic",))]
    return [*CRAFTED, *views]


def _places(body: object):
    stack = [body]
    while stack:
        held = stack.pop()
        if isinstance(held, dict | list):
            keys = held if isinstance(held, dict) else range(len(held))
            for key in list(keys)[:200]:
                yield held, key
                stack.append(held[key])


PARTS = [part for text in valid() for part in _places(json.loads(text))]
"""Every value in a valid statement, as (what holds it, its place there)."""


def mutated(random: random.Random, texts: list[str]) -> str:
    """One of the texts with one to three changes, of its values or of its characters."""
    text = random.choice(texts)
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice((_other_value, _other_value, _other_sql, _other_characters))(random, text)
    return text


def _other_value(random: random.Random, text: str) -> str:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places = list(_places(body))
    if not places:
        return text
    holder, key = random.choice(places)
    change = random.randrange(4)
    if change == 0:
        holder[key] = random.choice(VALUES)
    elif change == 1:
        other, place = random.choice(PARTS)
        holder[key] = copy.deepcopy(other[place])
    elif change == 2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        del holder[key]
    return json.dumps(body)


def _other_sql(random: random.Random, text: str) -> str:
    """Of a view other SQL; of another statement other characters."""
    try:
        body = json.loads(text)
        sql = body["select"]["sql"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _other_characters(random, text)
    if not isinstance(sql, str):
        return text
    words = re.findall(r"\w+|\W", sql) or [""]
    piece = random.choice(
        [*EVIL_EXPRESSIONS, *"()`'\"\\;,*", "", "AND", "OR", "NOT", "AS", "JOIN", random.choice(words)]
    )
    words[random.randrange(len(words))] = f" {piece} "
    body["select"]["sql"] = "".join(words)
    return json.dumps(body)


def _other_characters(random: random.Random, text: str) -> str:
    start = random.randint(0, len(text))
    end = min(len(text), start + random.choice((0, 1, 1, 3, 20)))
    piece = random.choice(
        ("", "", random.choice('{}[]",:\\0e.-'), "\\ud800", text[start:end] * 2, chr(random.randrange(0xD800)))
    )
    return text[:start] + piece + text[end:]


__all__ = ["EVIL_EXPRESSIONS", "EVIL_SELECTS", "crafted", "known", "mutated", "valid", "view"]
