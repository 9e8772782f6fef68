"""The one way this project compiles a hot loop."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """`function`, compiled by Numba at its first call; the machine code is kept on disk for the next process.

    Division by zero gives inf or NaN, as in NumPy. Numba does not notice when a compiled function *called* by this one
    changed in another file: remove the `__pycache__` folders after such an edit.
    """
    return cast(_Function, njit(cache=True, error_model="numpy")(function))
