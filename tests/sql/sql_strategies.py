"""Hypothesis strategies for statements: any that can be said, not only those a catalogue would accept."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tolerant.kinds.joins.select import BandJoinSelect, EqualityJoinSelect
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.kinds.ranges.select import RangeSelect
from tolerant.sql import (
    AggregateSelect,
    AlterQuery,
    And,
    Between,
    Compare,
    CreateQuery,
    CreateStream,
    CreateTable,
    Drop,
    In,
    Like,
    Not,
    Or,
    Show,
    Subscribe,
    Unsubscribe,
    Weight,
)
from tolerant.sql.join_spreads import Stretch
from tolerant.sql.select import Range
from tolerant.sql.types import TYPES
from tolerant.streams import POLICIES, Column, Stream, StreamOptions, TableOptions

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
"""No example is judged by the time it takes."""

WORDS = ["host", "rate", "within", "select", "table", "group", "date", "interval", "left", "current_date", "x", "KEY"]
RELATIONS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True) | st.sampled_from(WORDS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COLUMNS = RELATIONS | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(10**17), 10**17)
CONSTANTS = TEXT | INTEGERS | FLOATS | st.booleans()
NUMBERS = INTEGERS | FLOATS
TOLERANCES = st.floats(0, allow_nan=False, allow_infinity=False)
DURATIONS = st.integers(1, 10**15)
FACTORS = FLOATS.filter(bool)


def distinct(strategy, low, high):
    return st.lists(strategy, min_size=low, max_size=high, unique=True).map(tuple)


def escaped(text):
    return "".join("\\" + c if c == "\\" else c for c in text)


LEAVES = (
    st.builds(Compare, COLUMNS, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), CONSTANTS)
    | st.builds(In, COLUMNS, st.lists(CONSTANTS, min_size=1, max_size=3).map(tuple))
    | st.builds(Between, COLUMNS, CONSTANTS, CONSTANTS)
    | st.builds(Like, COLUMNS, TEXT.map(escaped))
)


def joined(cls, inner):
    """AND and OR of at least two parts, none of them of the same kind: `a AND (b AND c)` is one AND of three."""
    return st.lists(inner.filter(lambda p: not isinstance(p, cls)), min_size=2, max_size=3).map(lambda p: cls(tuple(p)))


PREDICATES = st.recursive(
    LEAVES, lambda inner: joined(And, inner) | joined(Or, inner) | st.builds(Not, inner), max_leaves=6
)
WEIGHTS = st.builds(
    Weight,
    st.just("weights"),
    COLUMNS,
    st.lists(st.tuples(COLUMNS, COLUMNS), min_size=1, max_size=2).map(tuple),
)
AGGREGATES = st.builds(
    AggregateSelect,
    stream=RELATIONS.filter(lambda name: name != "weights"),
    fn=st.sampled_from(["sum", "avg", "min", "max", "count"]),
    where=st.none() | PREDICATES,
    group_by=distinct(COLUMNS, 0, 3),
    factor=st.just(1.0) | FACTORS,
    weight=st.none() | WEIGHTS,
    within=TOLERANCES,
    fidelity=st.just(1.0) | st.floats(0.001, 1),
    otherwise=st.sampled_from(["widen", "withhold"]),
    column=COLUMNS,
) | st.builds(AggregateSelect, RELATIONS, st.just("count"), within=TOLERANCES, where=st.none() | PREDICATES)
RANGES = st.builds(Range, COLUMNS, CONSTANTS, CONSTANTS)
PAIRS = distinct(RELATIONS, 2, 2)
SHARDS = st.integers(1, 64)
STRETCHES = st.none() | st.builds(Stretch, st.floats(-9, -1), st.floats(0, 9), st.floats(0, 9))
JOINS = PAIRS.flatmap(
    lambda pair: (
        st.builds(EqualityJoinSelect, *map(st.just, pair), st.tuples(COLUMNS, COLUMNS), RANGES, RANGES, SHARDS)
        | st.builds(
            BandJoinSelect, *map(st.just, pair), st.tuples(COLUMNS, COLUMNS), NUMBERS, NUMBERS, SHARDS, STRETCHES
        )
        | st.builds(
            KeepJoinSelect,
            st.just(pair[0]),
            st.just(pair[1]),
            st.tuples(COLUMNS, COLUMNS),
            st.integers(1, 10**9),
            shards=SHARDS,
        )
    )
)
SELECTS = (
    AGGREGATES
    | st.builds(
        RangeSelect, RELATIONS, st.lists(RANGES, min_size=1, max_size=2, unique_by=lambda r: r.column).map(tuple)
    )
    | st.builds(RangeAggregateSelect, RELATIONS, st.sampled_from(["min", "max", "count", "distinct"]), COLUMNS, RANGES)
    | JOINS
)


@st.composite
def definitions(draw, numeric_value):
    names = draw(distinct(COLUMNS, 2, 4))
    types = [draw(st.sampled_from(TYPES)) for _ in names]
    if numeric_value:
        types[-1] = draw(st.sampled_from(["INT", "BIGINT", "DOUBLE", "FLOAT"]))
    columns = tuple(Column(name, type_name) for name, type_name in zip(names, types, strict=True))
    return columns, tuple(draw(st.permutations(names[:-1])))


@st.composite
def streams(draw):
    columns, key = draw(definitions(numeric_value=True))
    shards = draw(st.integers(1, 3))
    options = StreamOptions(
        tick=draw(st.integers(1, 10**12)),
        period=draw(st.integers(1, 1000)),
        latency=draw(st.integers(0, 10**15)),
        lease=draw(DURATIONS),
        shrink=draw(st.floats(0, 0.999)),
        policy=draw(st.sampled_from(POLICIES)),
        shards=shards,
        shard=draw(st.sampled_from(key)) if shards > 1 else draw(st.none() | st.sampled_from(key)),
        retention=draw(DURATIONS),
    )
    return CreateStream(Stream(draw(RELATIONS), columns, key, draw(st.none() | TEXT), options))


@st.composite
def tables(draw):
    columns, key = draw(definitions(numeric_value=False))
    options = draw(st.builds(TableOptions, *[st.integers(1, 2**53)] * 4) | st.just(TableOptions()))
    return CreateTable(draw(RELATIONS), columns, key, draw(st.none() | TEXT), options)


SUBSCRIPTIONS = st.sampled_from([Subscribe, Unsubscribe]).flatmap(
    lambda cls: (
        st.builds(cls, RELATIONS, st.lists(CONSTANTS, max_size=3).map(tuple)) | st.builds(cls, RELATIONS, uri=TEXT)
    )
)
STATEMENTS = (
    streams()
    | tables()
    | st.builds(CreateQuery, RELATIONS, st.just(()), SELECTS)
    | st.builds(AlterQuery, RELATIONS, TOLERANCES)
    | st.builds(Drop, st.sampled_from(["query", "stream", "table"]), RELATIONS)
    | SUBSCRIPTIONS
    | st.builds(Show, st.sampled_from(["queries", "streams", "tables"]))
)
