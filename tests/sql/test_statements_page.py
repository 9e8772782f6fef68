"""The page about statements is true: what it says works does, and what it says is shown is."""

import re
from pathlib import Path

import pytest

from tolerant.sql import Catalogue, LocalStatement, NotAvailable, Show, StatementError, parse_many

PAGE = Path(__file__).parents[2] / "docs" / "statements.md"
BLOCKS = re.findall(r"^```(sql|sql later|text|text show)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page():
    catalogue = Catalogue()
    followed = [*BLOCKS[1:], ("", "")]
    for (language, content), (following, shown) in zip(BLOCKS, followed, strict=True):
        text = content.rstrip("\n")
        if language == "sql later":
            refused_by_name(text, catalogue)
        elif language == "text show":
            assert catalogue.show(Show("queries")) == text.split("\n")
        elif language == "sql" and following == "text":
            with pytest.raises(StatementError) as error:
                parse_many(text, catalogue)
            assert str(error.value) == shown.rstrip("\n")
        elif language == "sql":
            for statement in parse_many(text, catalogue):
                if not isinstance(statement, LocalStatement):
                    catalogue.record(statement)


def refused_by_name(text, catalogue):
    for statement in parse_many(text):
        with pytest.raises(NotAvailable, match="not available yet"):
            catalogue.check(statement)


def test_the_page_has_something_of_each_sort():
    languages = [language for language, _ in BLOCKS]
    assert languages.count("sql") > 15
    assert languages.count("text") > 7
    assert languages.count("sql later") == 2
    assert languages.count("text show") == 1
