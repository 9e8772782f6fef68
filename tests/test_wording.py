"""The check of words finds what its list names, and where."""

import runpy
from pathlib import Path

WORDING = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "wording.py"))


def test_a_listed_word_is_refused_with_its_place() -> None:
    words = WORDING["patterns"]("# a comment\n\\bfarewells?\\b  => tombstone\n")
    assert WORDING["matches"]("a.py", "fine\nA Farewell.", words) == ["a.py:2: 'Farewell': write: tombstone"]
    assert WORDING["matches"]("a.py", "farewellness", words) == []


def test_every_line_of_the_list_is_a_pattern_and_its_replacement() -> None:
    text = (Path(__file__).parents[1] / "tools" / "wording.txt").read_text()
    words = WORDING["patterns"](text)
    assert len(words) > 20
    assert all(instead for _, instead in words)
