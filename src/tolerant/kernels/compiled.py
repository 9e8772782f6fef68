"""Decorators that compile hot loops with Numba and cache the machine code on disk.

Numba is imported at the first call of any such function, not with the modules that define them. Where it is not
installed, and within `as_python`, the functions run as the Python that they are: the same bits, only slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, update_wrapper
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHELL = ("edge", "kinds", "pipeline", "spark", "client", "testing", "experiments")
"""The packages whose compiled functions may call those of any core."""

_AS_PYTHON = ContextVar("as_python", default=False)


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
    # Always sets `_nrt`: without it, a function would inherit the option of its first caller.
    return cast(_Function, LazyFunction(function, {"forceinline": forceinline, "_nrt": counted}))


class LazyFunction:
    """A function that Numba gets to see when it is called, or compiled into another."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._options = options

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function, compiled for arguments of these types."""
        return (self.python if _AS_PYTHON.get() else self.implementation)(*args, **options)

    def __reduce__(self) -> str:
        return self._function.__qualname__  # pickled by its name, as functions are

    @cached_property
    def implementation(self) -> Callable[..., Any]:
        """Numba's dispatcher of the function; without Numba the function itself."""
        return self._dispatcher("entries") if has_numba() else self.python

    @cached_property
    def python(self) -> Callable[..., Any]:
        """The function itself."""
        # NumPy's scalars divide by zero and overflow as compiled code does, but warn of it.
        return np.errstate(all="ignore")(self._function)

    @cached_property
    def callee(self) -> Callable[..., Any]:
        """Numba's dispatcher of the function for compiled callers: without the entry for Python.

        That entry takes every array of every tuple apart, and is most of what there is to compile of a small function.
        """
        return self._dispatcher("callees", no_cpython_wrapper=True)

    def _dispatcher(self, kind: str, **options: bool) -> Callable[..., Any]:
        """The dispatcher, which caches in a folder of its kind: one kind's code is of no use to the other."""
        config, njit = _numba()
        configured = config.CACHE_DIR
        folder = configured or _folder(self.__module__.removeprefix("tolerant.").split(".")[0])
        config.CACHE_DIR = folder and os.path.join(folder, kind)
        try:
            options |= {"cache": True, "no_cfunc_wrapper": True, **self._options}
            return njit(error_model="numpy", **options)(self._function)
        finally:
            config.CACHE_DIR = configured


@cache
def has_numba() -> bool:
    """Return whether Numba is installed; it is not imported for that."""
    return find_spec("numba") is not None


def numba_is_loaded() -> bool:
    """Return whether a compiled function has been called in this process."""
    return _numba.cache_info().currsize > 0


@contextmanager
def as_python() -> Iterator[None]:
    """Run what is called within as Python, unless Numba is loaded: for work too small to import it for."""
    token = _AS_PYTHON.set(not numba_is_loaded())
    try:
        yield
    finally:
        _AS_PYTHON.reset(token)


@cache
def _numba() -> tuple[Any, Any]:
    """Import Numba, and let compiled functions call a `LazyFunction` as what it implements."""
    from numba import config, njit, typeof
    from numba.extending import typeof_impl

    def type_of(value: LazyFunction, _context: Any) -> Any:
        return typeof(value.callee)

    typeof_impl.register(LazyFunction, type_of)
    return config, njit


@cache
def _folder(package: str) -> str:
    """The cache folder of a package, named by a hash of all sources that its machine code may contain.

    Numba checks only the file of the function itself, and would reuse code into which an older version of a function
    of another file was compiled. A core uses its own files and the kernels; the shell may use every core.
    """
    import hashlib  # with OpenSSL, which a process without Numba does not need

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
