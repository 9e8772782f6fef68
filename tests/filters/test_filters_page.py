"""The page on filters says what comes out."""

import doctest
import re
from pathlib import Path


def test_the_example_of_the_page_comes_out():
    page = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()
    (example,) = re.findall(r"```python\n(>>>.*?)```", page, re.DOTALL)
    test = doctest.DocTestParser().get_doctest(example, {}, "filters.md", None, None)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 3
    assert results.failed == 0
