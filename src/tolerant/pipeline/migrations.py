"""States of shards as older releases wrote them, as those of today."""

from __future__ import annotations

from tolerant.kernels.snapshots import State
from tolerant.pipeline.late_sources import LateSources


def without_periods(state: State) -> State:
    """Schema 1, whose clocks had the stream's period, as schema 2."""
    for clock in state["shard"]["event_time"]["clocks"].values():
        del clock["period"]
    return state


def with_late_sources(state: State) -> State:
    """The same of a kind that did not count its late rows by source."""
    state["kind"]["late_sources"] = LateSources().state()
    return without_periods(state)
