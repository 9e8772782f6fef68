"""The architecture page names files that exist, and its picture is the one that its script draws."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"`(src/tolerant/[\w/]+\.py)`", (DOCS / "architecture.md").read_text()))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_picture_is_drawn_from_the_packages() -> None:
    drawing = runpy.run_path(str(DOCS / "pictures" / "architecture.py"))["drawing"]
    assert (DOCS / "architecture.svg").read_text() == drawing()


def test_no_document_links_to_a_file_that_is_not_there() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md"]
        for target in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert missing == []
