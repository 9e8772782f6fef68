"""Recorded traces, where they are to be had: they are too large to come with the project."""

from __future__ import annotations

import os
from pathlib import Path

from tolerant.traces import Trace

FOLDER = "TOLERANT_DATA"
"""The environment variable that names the folder of recorded traces."""


def recorded(name: str) -> Trace | None:
    """The trace in `<name>.parquet`, from the folder that TOLERANT_DATA names, or `data` or `shared/data` in the
    working directory or above it; None where there is no such file.
    """
    here = Path.cwd()
    folders = [base / folder for base in (here, *here.parents) for folder in ("data", "shared/data")]
    if os.environ.get(FOLDER):
        folders.insert(0, Path(os.environ[FOLDER]))
    found = next((folder / f"{name}.parquet" for folder in folders if (folder / f"{name}.parquet").is_file()), None)
    return None if found is None else Trace.read(found)
