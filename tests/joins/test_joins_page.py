"""The program of docs/joins.md, run as it stands."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "joins.md"


def test_the_page_says_what_happens():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0
