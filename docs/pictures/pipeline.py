"""Makes docs/pipeline.png: one shard and its sources, in trace time, with a query that is altered twice."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from tolerant.queries import Answer
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline

HOSTS = 8
START = 1_000_000 * SECOND
STATEMENTS = """
CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);
CREATE QUERY load AS SELECT AVG(rate) FROM traffic WITHIN 6;
"""


def main() -> None:
    """Play it and draw it."""
    pipeline = LocalPipeline(STATEMENTS, now=START)
    source = pipeline.source("edge")
    handles = source.register([(f"host-{n}", "in") for n in range(HOSTS)])
    random = np.random.default_rng(4)
    values = random.normal(100, 20, HOSTS)
    truth = []
    for tick in range(180):
        values += random.normal(0, 1, HOSTS) * np.linspace(0.2, 4, HOSTS)
        source.set_many(handles, values.copy())
        truth.append((pipeline.now, values.mean()))
        if tick in (60, 120):
            pipeline.send(parse(f"ALTER QUERY load WITHIN {2 if tick == 60 else 6}"))
        pipeline.tick()
    draw(pipeline, np.array(truth))


def draw(pipeline: LocalPipeline, truth: np.ndarray) -> None:
    """The band of the answers, and the truth in it."""
    answers = [Answer(**row) for row in pipeline.rows("answers.load") if row["low"] is not None]
    at = np.array([(answer.at - START) / SECOND for answer in answers])
    low, high = (np.array([getattr(answer, end) for answer in answers]) for end in ("low", "high"))
    settling = np.array([answer.settling for answer in answers])
    figure, axes = plt.subplots(figsize=(9, 3.6))
    axes.fill_between(at, low, high, step="post", alpha=0.3, label="answer")
    for n in np.flatnonzero(settling[:-1]):
        label = "settling" if n == np.flatnonzero(settling)[0] else None
        axes.fill_between(at[n : n + 2], low[n], high[n], color="tab:red", alpha=0.5, linewidth=0, label=label)
    axes.plot((truth[:, 0] - START) / SECOND, truth[:, 1], color="black", linewidth=1, label="truth")
    axes.set(xlabel="event time, s", ylabel="AVG(rate)", title="WITHIN 6, then 2, then 6")
    axes.legend(loc="upper left")
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "pipeline.png", dpi=110)


if __name__ == "__main__":
    main()
