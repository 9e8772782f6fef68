"""The page on filters says what comes out."""

import doctest
from pathlib import Path


def test_the_example_of_the_page_comes_out():
    page = Path(__file__).parents[2] / "docs" / "filters.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 3
    assert results.failed == 0
