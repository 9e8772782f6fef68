"""The page about notifications is true: its program does what it shows."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "notifications.md"


def test_the_program_of_the_page():
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0
