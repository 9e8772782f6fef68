"""What the demo leaves behind: a picture, and its figures as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tolerant.demo import picture
from tolerant.demo.audit import held, truth
from tolerant.demo.run import Outcome
from tolerant.demo.sources import BEGIN
from tolerant.streams import SECOND

DRAWN = ("inbound", "")
"""The series that the picture shows: Q2, everything that comes in."""


def record(outcome: Outcome) -> dict[str, object]:
    """The figures, as JSON can hold them. Times are seconds from the start of the process."""
    return {
        "first_answer": round(outcome.first_answer, 2),
        "seconds": round(outcome.seconds, 2),
        "boundaries": outcome.boundaries,
        "ticks": outcome.shape.ticks,
        "items": len(outcome.trace.items),
        "audit": asdict(outcome.audit),
        "costs": [{**asdict(cost), "total": cost.total} for cost in outcome.costs],
    }


def save(outcome: Outcome, folder: Path) -> tuple[Path, Path]:
    """Write `demo.json` and `demo.png` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    data, drawn = folder / "demo.json", folder / "demo.png"
    data.write_text(json.dumps(record(outcome), indent=1) + "\n")
    _draw(outcome, drawn)
    return data, drawn


def _draw(outcome: Outcome, path: Path) -> None:
    query = outcome.queries[DRAWN]
    answers = [answer for answer in outcome.answers if (answer.query, answer.group) == DRAWN]
    measured = np.array([(max(at - BEGIN, 0) / SECOND, count) for at, count in outcome.samples], float)
    picture.draw(
        path,
        title=f"Packets per second, inbound: {len(query.weights)} items, WITHIN {query.within:g}",
        seconds=(outcome.times - BEGIN) / SECOND,
        exact=truth(query, outcome.trace),
        answer=held(answers, outcome.times),
        messages={
            **outcome.growth,
            "predictive filters": (measured[:, 0], measured[:, 1]),
        },
    )
