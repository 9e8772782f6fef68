"""docs/polling.md says what is true: its examples are run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "polling.md"


def test_the_examples_of_the_page_run():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried >= 10
    assert failed == 0
