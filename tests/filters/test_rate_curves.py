"""When a report is worth its bytes."""

import numpy as np
import pytest

from tolerant.filters.ladder import RUNGS
from tolerant.filters.rate_curves import REPORT, is_news

OCTAVE = 8  # codes


def report(**of_now):
    """Codes of a curve that halves from rung to rung; `of_now`: octaves by which a rate of now is higher."""
    codes = np.tile(np.arange(RUNGS) * OCTAVE, 2).astype(np.uint8)
    assert len(codes) == REPORT
    for rung, octaves in of_now.items():
        codes[RUNGS + int(rung[1:])] -= octaves * OCTAVE
    return codes


@pytest.mark.parametrize(
    ("rung", "octaves", "width", "news"),
    [
        (5, 3, 0.25, True),  # at the width in force
        (5, 0, 0.25, False),
        (3, 3, 0.5, True),  # a little narrower than that
        (5, 3, 16.0, False),  # far from it: nobody would go there now
        (14, 3, 4.0, False),  # near, but less than a message in a thousand ticks
    ],
)
def test_a_report_is_news_where_a_rate_near_the_width_in_force_changes_much(rung, octaves, width, news):
    assert is_news(report(**{f"r{rung}": octaves}), report(), 1.0, width) == news


def test_a_change_is_news_in_both_directions():
    assert is_news(report(), report(r5=3), 1.0, 0.25)


def test_without_a_width_the_narrow_rungs_count():
    assert is_news(report(r2=2), report(), 1.0, 0.0)
    assert not is_news(report(r9=8), report(), 1.0, 0.0)
    assert not is_news(report(r9=8), report(), 1.0, np.inf)
