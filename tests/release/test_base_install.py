"""The wheel works where nothing is installed but its own dependencies."""

import os
import sys
import zipfile
from pathlib import Path

from edge_journey import HEAVY, EdgeJourney

_WITHOUT = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {HEAVY} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""


def test_a_source_a_client_and_the_commands_run_without_any_extra(wheel: Path, tmp_path: Path) -> None:
    """As in an empty environment, but without a network: what the base install does not bring cannot be found."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path / "site")
    (tmp_path / "site" / "sitecustomize.py").write_text(_WITHOUT)
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    journey = EdgeJourney(folder, [sys.executable], environment)
    try:
        where = journey.python("import tolerant; print(tolerant.__file__)").stdout.strip()
        assert Path(where).is_relative_to(tmp_path / "site")
        journey.run()
    finally:
        journey.close()
