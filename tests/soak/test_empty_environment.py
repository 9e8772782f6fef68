"""The wheel in a new virtual environment: how large that is, and that a source, a client and the commands run there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "release"))

from edge_journey import EdgeJourney  # noqa: E402

pytestmark = pytest.mark.soak

LARGEST = 250_000_000
"""Bytes that the packages of the base install may have, without the bytecode that Python makes of them."""


def test_the_base_install(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "empty"], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    (wheel,) = tmp_path.glob("*.whl")
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    if subprocess.run([*install, "numpy"], check=False, capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    subprocess.run([*install, wheel], check=True)
    assert package_bytes(python) <= LARGEST
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    journey = EdgeJourney(folder, [str(python)], environment)
    try:
        journey.run()
    finally:
        journey.close()


def package_bytes(python: Path) -> int:
    """Return the bytes of all packages but those that every environment begins with."""
    packages = python.parent.parent / "lib"
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = [file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    inside = [file for file in files if not file.relative_to(packages).parts[2].startswith(own)]
    return sum(file.stat().st_size for file in inside)
