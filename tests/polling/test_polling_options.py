from dataclasses import fields
from inspect import signature

import pytest

from tolerant.polling import Poller, PollingOptions, simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace


@pytest.mark.parametrize("function", [Poller, simulate])
def test_every_option_is_a_keyword_with_its_default(function):
    shown = signature(function).parameters
    for option in fields(PollingOptions):
        assert shown[option.name].default == option.default
    assert all(each.kind is not each.VAR_KEYWORD for each in shown.values())


def test_keywords_reach_the_options():
    poller = Poller([], "risk", window=7, servers={"x": "a"})
    assert poller.options == PollingOptions("risk", window=7, servers={"x": "a"})


def test_an_unknown_keyword_is_refused():
    query, trace = Aggregate.over("q", "sum", ["x"], 1.0), Trace(["x"], [[0.0], [1.0]])
    for call in (lambda: Poller([query], widow=3), lambda: simulate(trace, [query], widow=3)):
        with pytest.raises(TypeError, match="widow"):
            call()
