"""The one way this project compiles a hot loop."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """`function`, compiled by Numba at its first call; the machine code is kept on disk for the next process.

    Division by zero gives inf or NaN, as in NumPy.
    """
    return cast(_Function, njit(cache=True, error_model="numpy")(function))


def _keep_code_by_its_sources() -> None:
    """Keep machine code in a folder named after all sources that it may come from.

    Numba looks only at the file of the function itself, and would go on using code into which an older version of a
    function from another file was compiled.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"@compiled" in text:
            digest.update(text)
    folder = Path(__file__).parent / "__pycache__" / f"numba-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only installation: Numba finds a place in the user's cache
    if os.access(folder, os.W_OK):
        config.CACHE_DIR = str(folder)


if not config.CACHE_DIR:
    _keep_code_by_its_sources()
