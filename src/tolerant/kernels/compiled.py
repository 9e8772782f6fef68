"""Decorators that compile hot loops with Numba and cache the machine code on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHELL = ("edge", "kinds", "pipeline", "spark", "client", "testing", "experiments")
"""The packages whose compiled functions may call those of any core."""


def compiled(function: _Function) -> _Function:
    """Compile `function` with Numba at its first call; the machine code is cached on disk for later processes.

    Division by zero returns inf or NaN, as in NumPy.
    """
    return _compile(function, counted=True)


def inlined(function: _Function) -> _Function:
    """Compile `function` inline into each compiled caller: for small functions in hot loops."""
    return _compile(function, counted=True, forceinline=True)


def compiled_no_refcount(function: _Function) -> _Function:
    """Compile a `function` that neither creates nor returns an array, without reference counting (Numba's NRT off).

    Its caller keeps its array arguments alive. With reference counting, each array, also within a tuple, costs two
    atomic operations per call: most of the work of a small function. The trap: an array returned by a function that it
    calls would never be freed, without any error; a test checks what such functions call.
    """
    return _compile(function, counted=False)


def inlined_no_refcount(function: _Function) -> _Function:
    """Both `inlined` and `compiled_no_refcount`: for the smallest functions, where passing arrays costs most."""
    return _compile(function, counted=False, forceinline=True)


def _compile(function: _Function, *, counted: bool, forceinline: bool = False) -> _Function:
    configured = config.CACHE_DIR
    config.CACHE_DIR = configured or _folder(function.__module__.removeprefix("tolerant.").split(".")[0])
    try:
        # Always sets `_nrt`: without it, a function would inherit the option of its first caller.
        options = {"cache": True, "error_model": "numpy", "forceinline": forceinline, "_nrt": counted}
        return cast(_Function, njit(**options)(function))
    finally:
        config.CACHE_DIR = configured


@cache
def _folder(package: str) -> str:
    """The cache folder of a package, named by a hash of all sources that its machine code may contain.

    Numba checks only the file of the function itself, and would reuse code into which an older version of a function
    of another file was compiled. A core uses its own files and the kernels; the shell may use every core.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py")):
        owner = source.relative_to(root).parts[0]
        if package in _SHELL or owner in (package, "kernels"):
            text = source.read_bytes()
            if any(mark in text for mark in (b"@compiled", b"@inlined", b"@compiled_no_refcount")):
                digest.update(text)
    folder = Path(__file__).parent / "__pycache__" / f"numba-{package}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""  # a read-only installation: Numba uses the user's cache folder
    return str(folder) if os.access(folder, os.W_OK) else ""
