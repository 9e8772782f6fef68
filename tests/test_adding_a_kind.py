"""The page that adds a kind of query: its files, its line and its program, on a copy of the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import tolerant
from tolerant.sql.query_kind import kinds, resolve

SOURCE = Path(tolerant.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "adding-a-kind.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
((PLACE, LINE),) = re.findall(r"<!-- line: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)
((PROGRAM, OUTPUT),) = re.findall(r"<!-- program -->\n```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)


def package_with_the_kind(folder: Path) -> None:
    """The package with its own files behind links, the page's folder, and the page's line in the list of kinds."""
    (folder / "tolerant" / "kinds").mkdir(parents=True)
    for part in ("", "kinds"):
        for path in (SOURCE / part).iterdir():
            if path.name not in ("__pycache__", "kinds", "__init__.py"):
                (folder / "tolerant" / part / path.name).symlink_to(path)
    (folder / "tolerant" / "__init__.py").write_text((SOURCE / "__init__.py").read_text())
    listed = (SOURCE / "kinds" / PLACE).read_text()
    assert "_FOLDERS = (\n" in listed
    (folder / "tolerant" / "kinds" / PLACE).write_text(listed.replace("_FOLDERS = (\n", f"_FOLDERS = (\n{LINE}"))
    for name, text in FILES.items():
        path = folder / "tolerant" / "kinds" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_the_page_adds_a_kind_in_one_folder_and_one_line(tmp_path: Path) -> None:
    package_with_the_kind(tmp_path)
    assert {Path(name).parent.name for name in FILES} == {"last"}
    assert LINE.count("\n") == 1
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (ran.stdout, ran.stderr) == (OUTPUT, "")


def test_nobody_tells_kinds_apart_by_the_class_of_their_select() -> None:
    told_apart = re.compile(r"isinstance\([^)]*\b\w+Select\b|case \w+Select\(")
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert [name for name, text in sources.items() if told_apart.search(text.replace("exp.Select", ""))] == []


def test_every_kind_names_what_exists() -> None:
    references = [getattr(kind, part) for kind in kinds() for part in ("shard_query", "listener", "explain")]
    assert all(callable(resolve(reference)) for reference in references if reference)
    assert len({kind.name for kind in kinds()}) == len(kinds())
