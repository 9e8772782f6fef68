import pickle

import numpy as np
import pytest

from tolerant.planning import Network, depth, parse_network

TREE = Network(
    {"root": {"a": 0.1, "b": 0.1}, "mid": {"a": 0.2, "c": 0.3}, "leaf": {"a": 0.5, "b": 0.5, "c": 0.5}},
    {"mid": "root", "leaf": "mid"},
)


def test_items_come_from_the_parent_that_serves_them_else_from_the_source():
    assert TREE.path("leaf", "a") == ("root", "mid", "leaf")
    assert TREE.path("leaf", "b") == ("leaf",)
    assert TREE.step("leaf", "a") == pytest.approx(0.3)
    assert TREE.step("leaf", "b") == 0.5


def test_a_child_of_one_that_is_gone_goes_to_the_grandparent_where_that_can_feed_it():
    left = TREE.without("mid")
    assert dict(left.parents) == {"leaf": "root"}
    loose = Network({"g": {"b": 1.0}, "p": {"a": 1.0}, "k": {"a": 2.0, "b": 0.5}}, {"p": "g", "k": "p"})
    assert dict(loose.without("p").parents) == {}
    with pytest.raises(ValueError, match="no aggregator is called 'x'"):
        TREE.without("x")


def test_aggregators_and_items_join_and_leave():
    more = TREE.joined("new", {"d": 1.0}, parent="root")
    assert more.aggregators == ("root", "mid", "leaf", "new")
    assert more.parents["new"] == "root"
    assert "d" in more.items
    assert more.without_items(["d"]).items == TREE.items
    assert pickle.loads(pickle.dumps(more)) == more
    assert more != TREE


@pytest.mark.parametrize(
    ("bounds", "parents", "message"),
    [
        ({"A": {"a": -1}}, None, "'a' at aggregator 'A' must be finite and not negative, got -1"),
        ({"A": {"a": np.nan}}, None, "must be finite"),
        ({"A": {"a": "1"}}, None, "must be a number, got '1'"),
        ({"A": {"a": 1}, "B": {"a": 0.5}}, {"B": "A"}, "'B' holds 'a' within 0.5, tighter than its parent 'A'"),
        ({"A": {"a": 1}}, {"A": "B"}, "no aggregator is called 'B'"),
        ({"A": {"a": 1}, "B": {"a": 1}}, {"A": "B", "B": "A"}, "round in a circle"),
    ],
)
def test_bad_networks_are_refused(bounds, parents, message):
    with pytest.raises(ValueError, match=message):
        Network(bounds, parents)


TEXT = """
[aggregators.edge]
items = { S1 = 0.5, "S.3" = 1 }

[aggregators.shop]
parent = "edge"
within = 1.0
items = ["S1", "S.3"]
"""


def test_a_file_describes_a_network():
    network = parse_network(TEXT)
    assert network == Network({"edge": {"S1": 0.5, "S.3": 1.0}, "shop": {"S1": 1.0, "S.3": 1.0}}, {"shop": "edge"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[aggregators.A\n", r"net\.toml is not TOML: .*line 1"),
        ("", r"net\.toml must have at least one table \[aggregators\.NAME\], got nothing"),
        ("[agregators.A]\nitems = {a = 1}", "got `agregators`; did you mean 'aggregators'"),
        ("[aggregators.A]\nitem = {a = 1}", "aggregator 'A': .*got `item`; did you mean 'items'"),
        ("[aggregators.A]\nparent = 'B'", "`items` must be a table .*got nothing"),
        ("[aggregators.A]\nitems = {}", "at least one item"),
        ("[aggregators.A]\nitems = {a = 'x'}", "aggregator 'A', item 'a': the bound must be a number, got 'x'"),
        ("[aggregators.A]\nitems = {a.b = 1}", "item 'a': .*does the name have a dot"),
        ("[aggregators.A]\nitems = {a = -1}", "not negative, got -1"),
        ("[aggregators.A]\nitems = {a = nan}", "must be finite"),
        ("[aggregators.A]\nitems = ['a']", "needs `within`"),
        ("[aggregators.A]\nwithin = 1\nitems = ['a', 'a']", "'a' is listed twice"),
        ("[aggregators.A]\nwithin = 1\nitems = [1]", "must hold names, got 1"),
        ("[aggregators.A]\nwithin = 1\nitems = {a = 1}", "`within` is for a list"),
        ("[aggregators.A]\nparent = 'edg'\nitems = {a = 1}\n[aggregators.edge]\nitems = {a = 1}", "mean 'edge'"),
        ("[aggregators.A]\nparent = 1\nitems = {a = 1}", "`parent` must be the name"),
        ("[aggregators]\nA = 1", "must be a table with `items`, got 1"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(text, message):
    with pytest.raises(ValueError, match=message):
        parse_network(text, "net.toml")


def test_who_hears_a_slow_one_is_slower_whatever_it_asks_of_it():
    network = Network(
        {"top": {"x": 0}, "middle": {"x": 1, "y": 1}, "low": {"y": 2}}, {"middle": "top", "low": "middle"}
    )
    assert [depth(network, name) for name in ("top", "middle", "low")] == [1, 2, 3]
    assert depth(Network({"alone": {"x": 0}}), "alone") == 1
