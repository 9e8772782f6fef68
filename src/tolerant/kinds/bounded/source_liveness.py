"""Which sources are alive: silences, restarts and revivals, and what they say about the items of a source."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tolerant.filters.state import Flags, Integers
from tolerant.kernels.versions import COUNTER_BITS
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.kinds.bounded.special_cases import Transaction


class SourceLiveness:
    """Marks the items of silent and restarted sources as stale, and as fresh again once the source is heard."""

    def __init__(self, state: ShardState) -> None:
        self._state, self._sources, self._registry = state, state.sources, state.registry
        self._evidence = state.coordinator.evidence

    def record_lived(self, items: Integers) -> Integers:
        """Advances filters up to the time at which their sources are known to have been alive; returns the items whose
        bounds change by that. An item that its source has not sent again since its restart keeps its filter.
        """
        current = items[self._state.is_current(items)]
        return self._evidence.record_liveness(current, self._sources.lived[self._registry.owner[current]])

    def unheard(self) -> Integers:
        """Returns the items of silent sources and the disputed items: they are not probed."""
        silent = np.zeros(0, np.int64)
        if self._sources.names:
            silent = np.flatnonzero(self._registry.present & self._sources.silent[self._registry.owner])
        return np.append(silent, np.array(self._state.conflicts.items(), np.int64))

    # -- silences --------------------------------------------------------------------------------------------------

    def next_silence(self, rows: Rows, until: int) -> int | None:
        """Returns when a source first falls silent up to `until`, given the rows until then."""
        at = self._sources.next_silence(rows, until)
        # With late rows it may be in the past; it takes effect now.
        return None if at is None else max(at, self._state.coordinator.emitter.at)

    def fall_silent(self, transaction: Transaction) -> None:
        """Marks the items of sources that have fallen silent as stale."""
        for source in self._sources.fallen_silent(transaction.at):
            self._silence(int(source), transaction.at)

    def silence_again(self, rows: Rows, at: int) -> None:
        """Marks the sources of late rows as silent if these rows are the last of them and older than a lease."""
        for source in np.unique(rows["source"]):
            if self._sources.heard[source] + self._state.lease < at:
                self._silence(int(source), at)

    def _silence(self, source: int, at: int) -> None:
        self._sources.silent[source] = True
        self._evidence.mark_stale(self._registry.of_source(source), True, at)

    # -- restarts --------------------------------------------------------------------------------------------------

    def is_restart(self, rows: Rows) -> Flags:
        """Marks rows of a newer start of their source."""
        newer: Flags = (rows["sequence"] >> COUNTER_BITS) > self._sources.epoch[rows["source"]]
        return newer

    def restart(self, transaction: Transaction) -> None:
        """Marks the items of restarted sources as stale."""
        rows = transaction.rows
        epochs = rows["sequence"] >> COUNTER_BITS
        for source in np.unique(rows["source"][self.is_restart(rows)]):
            self._restart(int(source), int(epochs[rows["source"] == source].max()), transaction.at)

    def record_lost_restarts(self, starts: Mapping[str, int], at: int) -> None:
        """Records restarts that only lost rows show: `starts` maps a source to the newest epoch of its lost rows. If
        that is a new epoch, the items of the source are stale until its next rows.
        """
        for name, epoch in starts.items():
            source = int(self._sources.enlist([name])[0])
            if epoch > self._sources.epoch[source]:
                self._restart(source, epoch, at)
        self._state.answers.finish()

    def _restart(self, source: int, epoch: int, at: int) -> None:
        self._sources.restart(source, epoch)
        items = self._registry.of_source(source)
        self._state.history.forget(items.tolist(), at)  # its clock may have been set back since it reported this
        self._evidence.mark_stale(self._undisputed(items), True, at, epoch=epoch)

    # -- revivals --------------------------------------------------------------------------------------------------

    def is_of_silent_source(self, rows: Rows) -> Flags:
        """Marks rows of sources that are known to be silent."""
        silent: Flags = self._sources.silent[rows["source"]]
        return silent

    def revive(self, transaction: Transaction) -> None:
        """Marks the items of silent sources that are heard again as fresh."""
        rows, at = transaction.rows, transaction.at
        for source in np.unique(rows["source"]):
            last_heard = int(rows["heard"][rows["source"] == source].max())
            if self._sources.silent[source] and last_heard + self._state.lease >= at:
                self._sources.silent[source] = False
                items = self._undisputed(self._registry.of_source(int(source)))
                self._evidence.mark_stale(items[self._state.is_current(items)], False, at)

    def _undisputed(self, items: Integers) -> Integers:
        return np.array([item for item in items.tolist() if item not in self._state.conflicts], np.int64)
