"""A pipeline's id is read back from its text, and tells pipelines apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.sql import PipelineId, parse
from tolerant.sql.pipeline_ids import is_relation_name
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, JoinInput, Views, join_input

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,10}", fullmatch=True)
partitionings = st.one_of(st.just("bands"), st.from_regex(r"[0-9a-f]{8}", fullmatch=True))
ids = st.one_of(
    st.builds(PipelineId, st.tuples(names)),
    st.builds(PipelineId, st.lists(names, min_size=1, max_size=3).map(tuple), views=st.just(True)),
    st.builds(PipelineId, st.tuples(names, names), st.booleans()),
    st.builds(
        PipelineId, st.tuples(names, names), st.booleans(), shards=st.integers(2, 99), partitioning=partitionings
    ),
)
LINES = parse("CREATE TABLE lines (id BIGINT, part BIGINT, x DOUBLE) KEY (id)")
ORDERS = parse("CREATE TABLE orders (id BIGINT, part BIGINT, y DOUBLE) KEY (id)")

RANGES = "WHERE orders.y BETWEEN 0 AND 1 AND lines.x BETWEEN 0 AND 1"


@given(ids)
def test_an_id_is_read_back(pipeline):
    assert PipelineId.parse(str(pipeline)) == pipeline
    assert is_relation_name(str(pipeline)) == (pipeline == PipelineId(pipeline.relations[:1]))


@given(ids, ids)
def test_two_ids_have_two_texts(one, other):
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    "text", ["lines@", "lines@4", "lines@x.bands", "lines@0.bands", "lines@4.bands@views", "lines@4."]
)
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValueError, match="expected the id of a pipeline"):
        PipelineId.parse(text)


@pytest.mark.parametrize(
    ("select", "text"),
    [
        ("SELECT AVG(rate) FROM traffic WITHIN 5", "traffic"),
        ("SELECT * FROM orders WHERE y BETWEEN 0 AND 1", "orders"),
        (f"SELECT * FROM orders JOIN lines ON orders.part = lines.part {RANGES}", "lines+orders"),
        ("SELECT * FROM orders JOIN lines ON orders.part = lines.part KEEP 9 ROWS", "lines~orders"),
        ("SELECT part, COUNT(*) AS n FROM orders GROUP BY part REFRESH WITHIN '2 s'", "orders@views"),
    ],
)
def test_the_pipeline_of_a_select(select, text):
    assert str(PipelineId.of(parse(f"CREATE QUERY q AS {select}").select)) == text


@pytest.mark.parametrize(("clause", "kind"), [(RANGES, JoinInput), ("KEEP 9 ROWS", AppendOnlyJoinInput)])
def test_a_join_with_several_shards_has_an_input_of_its_own(clause, kind):
    joined = f"CREATE QUERY q AS SELECT * FROM orders JOIN lines ON orders.part = lines.part {clause}"
    select = parse(f"{joined} WITH (shards = 4)").select
    pipeline = PipelineId.of(select)
    spread = join_input(pipeline, (ORDERS, LINES), select)
    assert type(spread) is kind
    assert (spread.id, spread.name, spread.shards, spread.on) == (pipeline, str(pipeline), 4, ("part", "part"))
    assert spread.by_value
    assert spread != kind.of(ORDERS, LINES)
    assert PipelineId.of(parse(joined).select) == kind.of(ORDERS, LINES).id


def test_views_are_identified_by_their_tables():
    assert Views((LINES, ORDERS)).id == PipelineId(("lines", "orders"), views=True)
