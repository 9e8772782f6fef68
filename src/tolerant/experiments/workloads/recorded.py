"""Reads recorded traces where they are available: they are too large for the repository."""

from __future__ import annotations

import os
from pathlib import Path

from tolerant.traces import Trace

FOLDER = "TOLERANT_DATA"
"""The environment variable that names the folder of recorded traces."""


def recorded(name: str) -> Trace | None:
    """Read the trace in `<name>.parquet`, from the folder that TOLERANT_DATA names, or `data` or `shared/data` in the
    working directory or above it; None where no such file exists.
    """
    here = Path.cwd()
    folders = [base / folder for base in (here, *here.parents) for folder in ("data", "shared/data")]
    if os.environ.get(FOLDER):
        folders.insert(0, Path(os.environ[FOLDER]))
    path = next((folder / f"{name}.parquet" for folder in folders if (folder / f"{name}.parquet").is_file()), None)
    return None if path is None else Trace.read(path)
