"""What `tests/conftest.py` does to other tests."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from running_order import LONGEST, QUICK

tried: list[int] = []


@settings(max_examples=10 * QUICK)
@given(st.integers())
def test_a_test_that_asks_for_many_examples(number):
    tried.append(number)


def test_gets_no_more_than_the_profile_says():
    if settings.default.max_examples <= QUICK:
        assert len(tried) <= settings.default.max_examples


def test_the_longest_files_exist():
    assert [path for path in LONGEST if not (Path(__file__).parents[1] / path).exists()] == []
