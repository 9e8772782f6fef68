"""The page about merging shows the real results."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "merging.md"


def test_the_page():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 10
    assert failed == 0
