"""The wheel and the sdist contain the package, its jar and `py.typed`, and nothing else."""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections import defaultdict
from pathlib import Path

from tolerant import __version__
from tolerant.cli.extras import EXTRAS

ROOT = Path(__file__).parent.parent.parent
DATA = {"tolerant/py.typed", "tolerant/spark/jars/tolerant.jar", "tolerant/spark/log4j2.properties"}
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
SOURCE = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}


def modules() -> set[str]:
    """The modules of the repository, without what is ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/tolerant"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name.removeprefix("src/") for name in listed if name.endswith(".py") and (ROOT / name).exists()}


def test_the_wheel(wheel: Path) -> None:
    assert wheel.name == f"tolerant-{__version__}-py3-none-any.whl"
    information = f"tolerant-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as opened:
        assert set(opened.namelist()) == modules() | DATA | {f"{information}/{name}" for name in METADATA}
        metadata = opened.read(f"{information}/METADATA").decode()
        entries = opened.read(f"{information}/entry_points.txt").decode()
        jar = opened.read("tolerant/spark/jars/tolerant.jar")
    assert f"\nVersion: {__version__}\n" in metadata
    assert "tolerant = tolerant.cli:main" in entries
    assert jar == (ROOT / "src/tolerant/spark/jars/tolerant.jar").read_bytes()


def test_the_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as opened:
        names = {member.name for member in opened.getmembers() if member.isfile()}
    java = {f"src/tolerant/spark/jars/{name}.java" for name in ("LocalFiles", "Running")}
    inside = {f"src/{name}" for name in modules() | DATA} | java
    assert names == {f"tolerant-{__version__}/{name}" for name in inside | SOURCE}


def test_a_wheel_built_from_the_sdist_is_the_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """As whoever packages it for a system builds it."""
    with tarfile.open(sdist) as opened:
        opened.extractall(tmp_path, filter="data")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=tmp_path / f"tolerant-{__version__}", check=True, capture_output=True, text=True)
    (again,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(first.namelist()) == set(second.namelist())
        assert [name for name in first.namelist() if first.read(name) != second.read(name)] == []


def test_the_base_install_is_light_and_every_extra_is_in_all(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        metadata = opened.read(f"tolerant-{__version__}.dist-info/METADATA").decode()
    wanted: dict[str, set[str]] = defaultdict(set)
    for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE):
        requirement, _, extra = line.partition("; extra == ")
        wanted[extra.strip("'\"")].add(re.split(r"[<>=]", requirement)[0])
    assert wanted.pop("") == {"numpy", "psutil", "pyarrow", "rich", "sqlglot", "typer"}
    assert wanted.pop("all") == set.union(*wanted.values())
    assert set(wanted) == set(EXTRAS)
