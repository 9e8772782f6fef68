"""Defines what an experiment declares: figure, claim, parameter sets, measurement, verdict and chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Row: TypeAlias = dict[str, float | int | str]
"""One row of results, or one parameter set: values that JSON can represent."""


@dataclass(frozen=True)
class Verdict:
    """Whether the claim is reproduced, and a sentence with the figures that show it."""

    reproduced: bool
    finding: str

    def __str__(self) -> str:
        return f"{'reproduced' if self.reproduced else 'NOT reproduced'}: {self.finding}"


@dataclass(frozen=True)
class Chart:
    """How rows are plotted: `y` over `x`, one line per value of `series`, one panel per value of `panel`."""

    x: str
    y: str
    series: str
    panel: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper that can be run again.

    `grid(quick)` returns the parameter sets; `measure(parameters)` returns the rows of one set and is a pure function
    that runs on a Spark worker; `judge(rows)` compares all rows with the claim. `in_driver`: Spark itself is measured,
    so `measure` runs in the driver, where the active session is, one parameter set after the other.
    """

    figure: str
    claim: str
    grid: Callable[[bool], Sequence[Row]]
    measure: Callable[[Mapping[str, float | int | str]], Sequence[Row]]
    judge: Callable[[Sequence[Row]], Verdict]
    chart: Chart
    in_driver: bool = False
