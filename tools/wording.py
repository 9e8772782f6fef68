"""Refuses the words that docs/glossary.md replaces: `python tools/wording.py`, run by `make check`.

`tools/wording.txt` lists them, a pattern and what to write instead per line. Prints every match with its place.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHECKED = ("src/", "docs/", "benchmarks/", "examples/", "tools/", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
LISTS = ("tools/wording.txt", "docs/glossary.md")  # they name the words


def patterns(text: str) -> list[tuple[re.Pattern[str], str]]:
    """The patterns of a word list and what replaces them."""
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [row.rsplit("=>", 1) for row in rows]
    return [(re.compile(pattern.strip(), re.IGNORECASE), instead.strip()) for pattern, instead in pairs]


def matches(name: str, text: str, words: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """Every use of a listed word in a text, with its place and what to write instead."""
    return [
        f"{name}:{number}: {match[0]!r}: write: {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in words
        for match in pattern.finditer(line)
    ]


def main() -> None:
    """Check the files that git tracks below the arguments, or all."""
    words = patterns((ROOT / "tools" / "wording.txt").read_text())
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    below = tuple(sys.argv[1:]) or CHECKED
    names = [name for name in listed if name.startswith(below) and name.endswith((".py", ".md")) and name not in LISTS]
    refused = [line for name in names for line in matches(name, (ROOT / name).read_text(), words)]
    print("\n".join(refused))
    for instead, count in Counter(line.rsplit(": write: ", 1)[1] for line in refused).most_common():
        print(f"{count:5}  {instead}")
    sys.exit(bool(refused))


if __name__ == "__main__":
    main()
