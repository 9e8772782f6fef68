"""The design pages: every link leads somewhere, and every section that code cites is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
_SECTION = r"§\d+(?:\.\d+)*"
_CITED = re.compile(rf"docs/design/(\w+)\.md`?,?\s*((?:{_SECTION}(?:,\s*|\s*(?:and|–)\s*)?)*)")
_LINKED = re.compile(rf"\[[^\]]*?({_SECTION})\]\((\w+)\.md\)")


def sections(page: str) -> set[str]:
    """The numbers of a page's headings."""
    text = (ROOT / "docs" / "design" / f"{page}.md").read_text(encoding="utf-8")
    return {f"§{number}" for number in re.findall(r"^##+ (\d+(?:\.\d+)*)\.? ", text, re.MULTILINE)}


def cited() -> list[tuple[str, str, str]]:
    """(file, page, section) of every citation in code, tests and benchmarks; a section "" names the page as a whole."""
    found = []
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for page, numbers in _CITED.findall(path.read_text(encoding="utf-8")):
                for section in re.findall(_SECTION, numbers) or [""]:
                    found.append((str(path.relative_to(ROOT)), page, section))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for section, other in _LINKED.findall(text):
        assert section in sections(other), f"{section} of {other}"


def test_cited_sections_exist() -> None:
    for path, page, section in cited():
        assert not section or section in sections(page), f"{path} cites {page} {section}"


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"design/{page.name}" in index
