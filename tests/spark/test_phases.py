"""What `tolerant run --verbose` prints of a start."""

import logging
import time

import pytest

from tolerant.cli.run import _tell_steps
from tolerant.spark.phases import StartPhase


def test_a_phase_tells_once_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tolerant.spark.phases"), StartPhase("working") as phase:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        phase.end()
    (record,) = caplog.records
    name, seconds, processor = record.args
    assert name == "working"
    assert seconds >= 0.2
    assert processor >= 0.19  # the system counts in hundredths


def test_what_fails_has_no_duration(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tolerant.spark.phases"), pytest.raises(ValueError), StartPhase("failing"):
        raise ValueError
    assert not caplog.records


def test_steps_are_told() -> None:
    logger, told = logging.getLogger("tolerant"), []
    before, level = list(logger.handlers), logger.level
    try:
        _tell_steps(told.append)
        with StartPhase("working"):
            pass
    finally:
        logger.handlers, logger.level = before, level
    assert len(told) == 1
    assert told[0].startswith("  working: 0.0 s")
