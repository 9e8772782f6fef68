"""A cost of a setup plus a constant per row."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """Pushing `rows` changes in one batch costs `slope`·rows + `setup`, and 0 for no rows.

    >>> cost = Linear(slope=0.25, setup=0.5)
    >>> cost(0), cost(2)
    (0.0, 1.0)
    """

    slope: float
    setup: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("slope", self.slope), ("setup", self.setup)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number ≥ 0, got {value!r}")

    def __call__(self, rows: int) -> float:
        """Return the cost of one batch of `rows` changes."""
        return float(self.slope * rows + self.setup) if rows > 0 else 0.0
