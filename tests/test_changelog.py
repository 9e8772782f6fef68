"""The changelog has a dated section for the version of the package."""

import re
from pathlib import Path

import tolerant

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_newest_release_is_the_version_of_the_package() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(tolerant.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])
