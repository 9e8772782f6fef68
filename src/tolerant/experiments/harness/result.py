"""Holds the rows of an experiment and its verdict, and writes them as JSON and as a picture."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict


@dataclass(frozen=True)
class Result:
    """The rows of an experiment and the verdict on its claim; `seconds` is the time of the Spark job."""

    name: str
    experiment: Experiment
    quick: bool
    rows: list[Row]
    verdict: Verdict
    seconds: float

    def record(self) -> dict[str, object]:
        """Return the result as an object that JSON can represent."""
        return {
            "name": self.name,
            "figure": self.experiment.figure,
            "claim": self.experiment.claim,
            "quick": self.quick,
            "verdict": asdict(self.verdict),
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
        }

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write `<name>.json` and `<name>.png` into `folder`, which is created if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        data, picture = folder / f"{self.name}.json", folder / f"{self.name}.png"
        data.write_text(json.dumps(self.record(), indent=1) + "\n")
        draw(self, picture)
        return data, picture


def draw(result: Result, path: Path) -> None:
    """Plot the rows as the experiment's chart says, with claim and verdict as the title."""
    from matplotlib.figure import Figure  # slow to import, and not needed by the workers

    chart = result.experiment.chart
    panels = _distinct(result.rows, chart.panel) if chart.panel else [""]
    figure = Figure(figsize=(5.2 * len(panels) + 1, 4.6), layout="constrained")
    title = [f"{result.experiment.figure}: {result.experiment.claim}", str(result.verdict)]
    characters = 90 * len(panels)  # that fit the width
    figure.suptitle("\n".join(line for text in title for line in textwrap.wrap(text, characters)), fontsize=9)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        rows = [row for row in result.rows if not chart.panel or row[chart.panel] == panel]
        for series in _distinct(rows, chart.series):
            points = sorted((row[chart.x], row[chart.y]) for row in rows if row[chart.series] == series)
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=str(series))
        _label(axes, chart, str(panel))
        if any(isinstance(row[chart.x], str) for row in rows):
            axes.tick_params(axis="x", rotation=90)  # names need more room than numbers
    figure.savefig(path, dpi=120)


def _label(axes: object, chart: Chart, title: str) -> None:
    axes.set(title=title, xlabel=chart.x_label or chart.x, ylabel=chart.y_label or chart.y)  # type: ignore[attr-defined]
    if chart.log_x:
        axes.set_xscale("log")  # type: ignore[attr-defined]
    if chart.log_y:
        axes.set_yscale("log")  # type: ignore[attr-defined]
    axes.grid(alpha=0.3)  # type: ignore[attr-defined]
    axes.legend()  # type: ignore[attr-defined]


def _distinct(rows: list[Row], column: str) -> list[float | int | str]:
    return list(dict.fromkeys(row[column] for row in rows))
