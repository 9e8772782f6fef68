"""What an experiment declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Row: TypeAlias = dict[str, float | int | str]
"""One line of results, or one set of parameters: what JSON can hold."""


@dataclass(frozen=True)
class Verdict:
    """Whether the claim came out, and the numbers that say so in a sentence."""

    came_out: bool
    finding: str


@dataclass(frozen=True)
class Chart:
    """How rows become a picture: `y` over `x`, a line for each value of `series`, a panel for each of `panel`."""

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
    """A figure or table of a seed, to be run again.

    `grid(quick)` gives the parameter sets; `measure(parameters)` the rows of one set, a pure function that runs on
    a Spark worker; `judge(rows)` compares all rows with the claim. `in_driver`: what is measured is Spark itself, so
    that `measure` runs where the active session is, one set after the other.
    """

    figure: str
    claim: str
    grid: Callable[[bool], Sequence[Row]]
    measure: Callable[[Mapping[str, float | int | str]], Sequence[Row]]
    judge: Callable[[Sequence[Row]], Verdict]
    chart: Chart
    in_driver: bool = False
