"""The demo's picture: one answer with its band and the truth, and the messages that it took, over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tolerant.demo.audit import Held

COLOURS = {"no filters": "#999999", "uniform filters": "#d08030", "predictive filters": "#2060b0"}


def draw(
    path: Path,
    *,
    title: str,
    seconds: NDArray[np.float64],
    exact: NDArray[np.float64],
    answer: Held,
    messages: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> None:
    """Write the picture. `seconds`, `exact`, `answer`: tick by tick. `messages`: name → (seconds, messages so far)."""
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(9, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.fill_between(
        seconds, answer.low, answer.high, step="post", color="#2060b0", alpha=0.25, lw=0, label="answer ± bound"
    )
    above.step(seconds, answer.value, where="post", color="#2060b0", lw=0.8, label="answer")
    above.plot(seconds, exact, color="black", lw=0.6, label="truth")
    above.set(title=title, ylabel="packets per second")
    above.legend(loc="upper right", fontsize=8)
    for name, (at, count) in messages.items():
        below.plot(at, count, color=COLOURS.get(name), label=f"{name}: {count[-1]:,.0f}")
    below.set(xlabel="seconds of trace time", ylabel="messages so far")
    below.legend(loc="upper left", fontsize=8)
    for axes in (above, below):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
