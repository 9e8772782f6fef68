"""Finds the experiments: every module of `tolerant.experiments` is one, named after its file."""

from __future__ import annotations

import importlib
import pkgutil

from tolerant.experiments.harness.experiment import Experiment

PACKAGE = "tolerant.experiments"


def names() -> list[str]:
    """The names of all experiments, sorted.

    >>> "filters-fig7" in names()
    True
    """
    package = importlib.import_module(PACKAGE)
    return sorted(
        module.name.replace("_", "-") for module in pkgutil.iter_modules(package.__path__) if not module.ispkg
    )


def load(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in names():
        raise ValueError(f"no experiment is called {name!r}; there are {', '.join(names())}")
    module = importlib.import_module(f"{PACKAGE}.{name.replace('-', '_')}")
    experiment = module.EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment
