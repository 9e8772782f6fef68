"""Which seeds of a simulator a run of `make test` plays: a stretch of all of them that begins elsewhere every day.

Every run plays some seeds whatever they take, then as many more as fit into `TOLERANT_SEED_SECONDS` of processor time
(default: 10). Tomorrow's stretch begins where today's least ends, so in time every seed has its turn, and runs of one
day play the same seeds from the same one on. `make soak` plays all of them.
"""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Protocol, TypeVar

SECONDS = "TOLERANT_SEED_SECONDS"
DEFAULT = 10.0  # of processor time per suite of seeds


class Report(Protocol):
    """What a simulator says of a history."""

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        ...


AnyReport = TypeVar("AnyReport", bound=Report)


def stretch(total: int, least: int, day: date) -> Iterator[int]:
    """The seeds 0 … total − 1, each once, beginning with those that are to be played on a day."""
    first = day.toordinal() * least % total
    return ((first + number) % total for number in range(total))


def play(
    simulate: Callable[[int], AnyReport],
    total: int,
    least: int,
    *,
    day: date | None = None,
    clock: Callable[[], float] = time.process_time,
) -> dict[int, AnyReport]:
    """The reports of today's seeds below `total`: `least` of them, and what else the budget allows."""
    end = clock() + float(os.environ.get(SECONDS, DEFAULT))
    reports: dict[int, AnyReport] = {}
    for seed in stretch(total, least, day or datetime.now(UTC).date()):
        if len(reports) >= least and clock() >= end:
            break
        reports[seed] = simulate(seed)
    return reports


def check(reports: dict[int, AnyReport]) -> None:
    """Fail if a promise was broken, with the seeds, and the first three reports."""
    failed = {seed: report for seed, report in reports.items() if not report.ok}
    shown = "\n\n".join(map(str, list(failed.values())[:3]))
    assert not failed, f"seeds {sorted(failed)} of the {len(reports)} from {next(iter(reports))} on:\n{shown}"
