"""Prints 14 source files at random: `python tools/random_files.py SEED [COUNT]`.

Answer for each: do the folder and the file name say what the first line of the docstring says?
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tolerant"
COUNT = 14


def picked(seed: int, count: int) -> list[Path]:
    """Source files chosen by the seed, without `__init__.py`."""
    files = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return sorted(random.Random(seed).sample(files, count))


def first_line(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(no docstring)").splitlines()[0]


def main() -> None:
    """Print a line per file: folder, file, and how its docstring begins."""
    seed = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    for path in picked(seed, count):
        print(f"{path.parent.relative_to(SOURCE)!s:28} {path.name:28} {first_line(path)}")


if __name__ == "__main__":
    main()
