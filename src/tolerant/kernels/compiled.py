"""The one way this project compiles a hot loop."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHELL = ("edge", "spark", "client", "testing", "experiments")
"""The packages whose compiled functions may call those of any core."""


def compiled(function: _Function) -> _Function:
    """`function`, compiled by Numba at its first call; the machine code is kept on disk for the next process.

    Division by zero gives inf or NaN, as in NumPy.
    """
    return _made(function, counted=True)


def inlined(function: _Function) -> _Function:
    """`function`, compiled into each compiled function that calls it: for small ones that are called all the time."""
    return _made(function, counted=True, forceinline=True)


def borrowing(function: _Function) -> _Function:
    """`function`, compiled, where it neither makes nor returns an array: those that it gets are kept by its caller.

    No references are counted in it. Elsewhere each array costs two atomic operations a call, each one of a tuple too,
    which in a small function that is called all the time is most of the work. The trap: an array that it got from a
    function it calls would never be freed, and nothing says so; a test looks at what they call.
    """
    return _made(function, counted=False)


def inlined_borrowing(function: _Function) -> _Function:
    """`inlined` and `borrowing` at once: for the smallest ones, where even handing over the arrays is felt."""
    return _made(function, counted=False, forceinline=True)


def _made(function: _Function, *, counted: bool, forceinline: bool = False) -> _Function:
    chosen = config.CACHE_DIR
    config.CACHE_DIR = chosen or _folder(function.__module__.removeprefix("tolerant.").split(".")[0])
    try:
        # `_nrt` is said in every case: where it is not, a function has it from whoever calls it first.
        options = {"cache": True, "error_model": "numpy", "forceinline": forceinline, "_nrt": counted}
        return cast(_Function, njit(**options)(function))
    finally:
        config.CACHE_DIR = chosen


@cache
def _folder(package: str) -> str:
    """Where the machine code of a package is kept: a folder named after all sources that it may come from.

    Numba looks only at the file of the function itself, and would go on using code into which an older version of a
    function from another file was compiled. A core uses its own files and the kernels; the shell may use every core.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py")):
        home = source.relative_to(root).parts[0]
        if package in _SHELL or home in (package, "kernels"):
            text = source.read_bytes()
            if any(mark in text for mark in (b"@compiled", b"@inlined", b"@borrowing")):
                digest.update(text)
    folder = Path(__file__).parent / "__pycache__" / f"numba-{package}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""  # a read-only installation: Numba finds a place in the user's cache
    return str(folder) if os.access(folder, os.W_OK) else ""
