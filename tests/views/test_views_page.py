import doctest
from pathlib import Path


def test_the_page_is_true():
    page = Path(__file__).parents[2] / "docs" / "views.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0
