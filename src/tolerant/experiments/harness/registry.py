"""Finds the experiments: every module in a folder of `tolerant.experiments`, named after its file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from tolerant.experiments.harness.experiment import Experiment

PACKAGE = "tolerant.experiments"
SHARED = ("harness", "workloads")
"""Folders of what the experiments share; all others hold experiments, one folder per paper or chapter."""


@cache
def modules() -> dict[str, str]:
    """Return the module of every experiment by the experiment's name, sorted by name.

    No experiment is imported: `filters_fig7.py` is `filters-fig7`, whatever its folder.
    """
    package = importlib.import_module(PACKAGE)
    folders = [f.name for f in pkgutil.iter_modules(package.__path__) if f.ispkg and f.name not in SHARED]
    paths = {folder: [f"{path}/{folder}" for path in package.__path__] for folder in folders}
    return dict(
        sorted(
            (module.name.replace("_", "-"), f"{PACKAGE}.{folder}.{module.name}")
            for folder in folders
            for module in pkgutil.iter_modules(paths[folder])
        )
    )


def names() -> list[str]:
    """Return the names of all experiments, sorted.

    >>> "filters-fig7" in names()
    True
    """
    return list(modules())


def load(name: str) -> Experiment:
    """Import the experiment of this name.

    Raises:
        ValueError: no experiment has this name.
    """
    if name not in modules():
        raise ValueError(f"no experiment is called {name!r}; there are {', '.join(names())}")
    experiment = importlib.import_module(modules()[name]).EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment
