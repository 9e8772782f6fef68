"""Public names of a package that are imported on first use (PEP 562): whoever needs one does not pay for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`: it imports each name of `modules` (module → names) on first use.

    >>> get = lazy_names("tolerant", {"tolerant.streams": ["SECOND"]})
    >>> get("SECOND")
    1000000
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get
