"""The page about planning is true: its program gives what it says, its network file is one."""

import doctest
import re
from pathlib import Path

from tolerant.planning import parse_network

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


def test_the_program_gives_what_the_page_says():
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_the_network_file_of_the_page_is_one():
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert parse_network(text).aggregators == ("edge", "shop")
