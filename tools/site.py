"""Builds the documentation site from the repository's own Markdown, strictly: a link that leads nowhere is an error.

The pages keep their places, so that links work in the repository and on the site alike. The result is `out/site`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "out" / "site-pages"
"""What `mkdocs.yml` calls `docs_dir`."""

SHOWN = ("*.md", "docs", "examples", "benchmarks", "LICENSE")


def stage(pages: Path = PAGES) -> None:
    """Copy the pages, and what they show or link to, to `pages`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SHOWN]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    shutil.rmtree(pages, ignore_errors=True)
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (pages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, pages / name)


def main() -> None:
    """Build the site, or end with what is wrong."""
    stage()
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr.partition("Traceback")[0])
    print("The documentation is in out/site/index.html.")


if __name__ == "__main__":
    main()
