"""A source in a simulation: its application, its clock, its way to the log and back, and what goes wrong on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.edge.source_core import SourceCore
from tolerant.edge.source_transport import Inbound
from tolerant.streams import StreamOptions, key_text
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.testing.truth import FOREVER
from tolerant.transport.rows import UPDATES, read_grants, unpack
from tolerant.transport.sums import read_sums
from tolerant.transport.topics import grants_topic, sums_topic

SourceFactory: TypeAlias = Callable[[str, int, StreamOptions], SourceCore]
"""(name, epoch, options) → the core of a source."""


class SimulatedSource:
    """One source with its items, which walk at random; dies and comes back."""

    def __init__(self, cluster: SimulatedCluster, name: str, kinds: Sequence[str], factory: SourceFactory) -> None:
        self._cluster = cluster
        self.name = name
        self._factory = factory
        self._keys = [key_text((name, kind)) for kind in kinds]
        cluster.owners.update(dict.fromkeys(self._keys, name))
        self._step = cluster.random.choice([0.1, 1.0, 1.0, 5.0])
        self._activity = {key: cluster.random.choice([0.05, 0.3, 0.8]) for key in self._keys}
        self._values: dict[str, float] = {}  # what the application measures, of the items that exist
        self._leaving: list[str] = []  # items that are gone, as long as the log does not know
        self._shy: list[str] = []  # items that say hello some turns after the others
        self._sums: dict[str, dict[str, float]] = {}  # that are filtered, as last seen
        self._ended: list[str] = []  # sums that are no more, as long as the log does not know
        self.core: SourceCore | None = None
        self._offset = 0.0
        self._queue: list[pa.RecordBatch] = []
        self._under_way: pa.RecordBatch | None = None
        self._accepted = -FOREVER
        self._position = 0
        for key in self._keys[: cluster.random.randint(1, len(self._keys))]:
            self._values[key] = cluster.between(-50, 50)
        cluster.after(cluster.between(0, cluster.stream.options.boundary), self.start)

    # -- life and death -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start, or start again: a new epoch, the grants read to their end, hello."""
        cluster = self._cluster
        if self.core is not None:
            return
        epoch = cluster.log.next_epoch(f"source/{cluster.stream.name}/{self.name}")
        self.core = self._factory(self.name, epoch, cluster.stream.options)
        self.core.watch = self._watch
        self._queue, self._under_way = [], None
        self._offset = self._small_skew()
        # A clock that was ahead may have said "through" of times for which this start has said nothing yet.
        self._accepted = min(self._accepted, self.clock - 1)
        self._sums = {}
        inbound = self._read_news(from_start=True)
        self.core.apply_sum_offers(inbound.sum_offers, self.clock)
        self.core.grant(inbound.grants, self.clock)
        keys = list(dict.fromkeys([*self._values, *self._leaving]))
        self._shy = [key for key in keys if cluster.random.random() < 0.2]
        self._hello([key for key in keys if key not in self._shy])
        cluster.log_event(f"source {self.name} starts as epoch {epoch}")
        cluster.after(self._pause(), lambda: self._turn(epoch))

    def crash(self) -> None:
        """Die. What is under way may still arrive, what waits is lost."""
        cluster = self._cluster
        if self.core is None:
            return
        cluster.log_event(
            f"source {self.name} crashes, accepted through {self._accepted}, {len(self._queue)} batches lost"
        )
        if self._under_way is not None and cluster.random.random() < 0.5:
            stray = self._under_way
            self._accepted = stray.column("through")[-1].as_py()
            cluster.after(cluster.between(0, cluster.stream.options.boundary), lambda: cluster.append_rows(stray))
        for key in [*self._values, *self._leaving, *self._sums, *self._ended]:
            cluster.truth.of(key).end_at(self._accepted)
        self._ended = []
        self.core = None
        cluster.after(cluster.between(0.2, 4) * cluster.stream.options.boundary, self.start)

    def stop_faults(self) -> None:
        """From now on nothing is wrong with this source."""
        self._offset = 0.0
        self.start()

    @property
    def clock(self) -> int:
        """What the source's clock shows."""
        return int(self._cluster.now + self._offset)

    # -- a turn -------------------------------------------------------------------------------------------------

    def _turn(self, epoch: int) -> None:
        cluster, core = self._cluster, self.core
        if core is None or core.epoch != epoch:
            return
        if cluster.occurs("source_crash"):
            self.crash()
            return
        pause = self._pause()
        if cluster.occurs("source_stall"):
            pause += int(cluster.between(0.5, 2) * cluster.stream.options.latency)
        cluster.after(pause, lambda: self._turn(epoch))
        self._inject_faults()
        core.advance(self.clock)
        self._see_sums()
        due = [key for key in self._shy if not cluster.occurs_too("late_hello")]
        self._shy = [key for key in self._shy if key not in due]
        self._hello(due)
        self._measure()
        if cluster.occurs("churn"):
            self._churn()
        if cluster.random.random() < 0.5:
            self._deliver(self._read_news())
        self._post()

    def _inject_faults(self) -> None:
        cluster, options = self._cluster, self._cluster.stream.options
        if cluster.occurs("skewed_clock"):
            jump = cluster.random.choice(
                [
                    cluster.between(-2, 0) * options.latency,
                    cluster.between(0, 1) * options.lease,
                    options.lease + cluster.between(1, 3) * options.boundary,
                ]
            )
            self._offset = jump
            cluster.log_event(f"clock of source {self.name} is off by {int(jump)}")
            cluster.after(cluster.between(0.3, 2) * options.boundary, self._set_clock_right)
        if cluster.occurs("garbage"):
            self._garbage()

    def _set_clock_right(self) -> None:
        self._offset = self._small_skew()

    def _garbage(self) -> None:
        cluster = self._cluster
        if cluster.random.random() < 0.5:
            cluster.append_garbage(b"nobody can read this")
            return
        bad = {"kind": "banana", "key": self._keys[0], "at": self.clock, "source": self.name, "through": self.clock}
        row = {**bad, "sequence": 1, "value": 1.0, "slope": 0.0, "report": None, "grant": 0}
        unreadable = {**row, "kind": "update", "key": "not a key of the stream", "source": "unknown"}
        cluster.append_rows(pa.RecordBatch.from_pylist([cluster.random.choice([row, unreadable])], UPDATES))

    # -- the application ----------------------------------------------------------------------------------------

    def _measure(self) -> None:
        cluster = self._cluster
        moved: list[str] = []
        for key in self._values:
            if key not in self._shy and cluster.random.random() < self._activity[key]:
                self._walk(key)
                moved.append(key)
        self._offer(moved)

    def _walk(self, key: str) -> None:
        """A step at random, or, as an adversary would have it, to just inside the edge of the item's filter."""
        cluster = self._cluster
        state = self.core.filter_of(key) if self.core is not None else None
        if state is not None and 0 < state.width < 1e6 and cluster.random.random() < 0.4:
            edge = cluster.random.choice([-0.5, 0.5]) * cluster.between(0.7, 1.0)
            self._values[key] = state.centre + edge * state.width
        elif not self._push_sum(key):
            step = cluster.random.choice([0.0, 1.0, 1.0, 1.0, 20.0]) * self._step
            self._values[key] += cluster.random.gauss(0, step)

    def _push_sum(self, key: str) -> bool:
        """Now and then bring a sum that the item is in to just inside the edge of its filter; whether that was done."""
        cluster = self._cluster
        for sum_, weights in self._sums.items():
            state = self.core.filter_of(sum_) if self.core is not None else None
            if key in weights and state is not None and 0 < state.width < 1e6 and cluster.random.random() < 0.4:
                edge = cluster.random.choice([-0.5, 0.5]) * cluster.between(0.7, 1.0)
                self._values[key] += (state.centre + edge * state.width - state.value) / weights[key]
                return True
        return False

    def _offer(self, keys: list[str]) -> None:
        if not keys or self.core is None:
            return
        values = [self._values[key] for key in keys]
        at = self.core.offer(self.core.register(keys), np.array(values), self.clock)
        for key, value in zip(keys, values, strict=True):
            truth = self._cluster.truth.of(key)
            truth.values.set(at, value)
            truth.resume_at(at)
        self._see_sums()

    def _see_sums(self) -> None:
        """Note what the sums that are filtered really are, by their items' values, and which there are no more."""
        if self.core is None:
            return
        cluster, at, now = self._cluster, self.core.clock, self.core.sums()
        for key in [key for key in self._sums if key not in now]:
            self._ended.append(key)
            cluster.truth.of(key).values.set(at, None)
            cluster.truth.of(key).filters.set(at, None)
        for key, weights in now.items():
            if key not in self._sums:
                cluster.log_event(f"source {self.name} filters the sum {key!r} of {weights} at {at}")
                cluster.owners[key], cluster.sums[key] = self.name, list(weights)
            values = [(cluster.truth.of(item).values.at(at), weight) for item, weight in weights.items()]
            cluster.truth.of(key).values.set(at, math.fsum(weight * (value or 0.0) for value, weight in values))
            cluster.truth.of(key).resume_at(at)
        self._sums = now

    def _hello(self, keys: list[str]) -> None:
        """Say the items' values as they are now; those that were gone before the log knew are said, and gone again."""
        for key in keys:
            if key not in self._values:
                self._values[key] = 0.0
            self._walk(key)
        self._offer(keys)
        for key in [key for key in self._leaving if key in keys]:
            self._remove(key)

    def _churn(self) -> None:
        cluster = self._cluster
        assert self.core is not None
        key = cluster.random.choice(self._keys)
        if key in self._leaving:
            return
        if key not in self._values:
            self._values[key] = cluster.between(-50, 50)
            self._offer([key])
        elif len(self._values) > 1 and key not in self._shy and not self._is_far_ahead():
            self._remove(key)

    def _is_far_ahead(self) -> bool:
        """Whether rows may be too far ahead to be used: an item's going would be lost for good."""
        assert self.core is not None
        return self.core.clock > self._cluster.now + self._cluster.stream.options.lease // 2

    def _remove(self, key: str) -> None:
        assert self.core is not None
        at = self.core.remove(int(self.core.register([key])[0]), self.clock)
        truth = self._cluster.truth.of(key)
        truth.values.set(at, None)
        truth.filters.set(at, None)
        del self._values[key]
        if key not in self._leaving:
            self._leaving.append(key)
        self._cluster.log_event(f"item {key} is gone at {at}")
        self._see_sums()

    def _watch(self, at: int, handles: NDArray[np.int64]) -> None:
        assert self.core is not None
        for handle in handles.tolist():
            key = self.core.key(handle)
            self._cluster.truth.of(key).filters.set(at, self.core.filter_of(key))

    # -- the way to the log -------------------------------------------------------------------------------------

    def _post(self) -> None:
        batch = self.core.drain() if self.core is not None else None
        if batch is not None:
            self._queue.append(batch)
        self._ship()

    def _ship(self) -> None:
        cluster = self._cluster
        if self.core is None or self._under_way is not None or not self._queue:
            return
        self._under_way = batch = self._queue.pop(0)
        latency, epoch = cluster.stream.options.latency, self.core.epoch
        slow = cluster.occurs("slow_append")
        delay = cluster.between(1, 4) * latency if slow else cluster.between(0.01, 0.2) * latency
        cluster.after(delay, lambda: self._land(batch, epoch))

    def _land(self, batch: pa.RecordBatch, epoch: int) -> None:
        if self.core is None or self.core.epoch != epoch:
            return
        cluster = self._cluster
        cluster.append_rows(self._corrupted(batch) if cluster.occurs("corrupt_row") else batch)
        if cluster.occurs("repeated_append"):
            cluster.after(cluster.between(0, 4) * cluster.stream.options.latency, lambda: cluster.append_rows(batch))
        self._under_way = None
        self._accepted = batch.column("through")[-1].as_py()
        for kind, key in zip(batch.column("kind").to_pylist(), batch.column("key").to_pylist(), strict=True):
            cluster.count(kind)
            if kind == "gone" and key in self._leaving:
                self._leaving.remove(key)
            elif kind == "gone" and key in self._ended:
                self._ended.remove(key)
        self._ship()

    def _corrupted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with one value that is no number. Not in a heartbeat or gone: their values do not count."""
        rows = batch.to_pylist()
        usable = [row for row in rows if row["kind"] in ("update", "hello", "ack")]
        if not usable:
            return batch
        row = self._cluster.random.choice(usable)
        self._cluster.log_event(f"row {row['sequence']:#x} of {row['key']} at {row['at']} is corrupted")
        row["value"] = float("nan")
        return pa.RecordBatch.from_pylist(rows, batch.schema)

    # -- the way back -------------------------------------------------------------------------------------------

    def _read_news(self, from_start: bool = False) -> Inbound:
        cluster, inbound = self._cluster, Inbound([], [])
        forms = sums_topic(cluster.stream.name)
        topics = (grants_topic(cluster.stream.name), forms)
        for entry in cluster.log.read(topics, 0 if from_start else self._position):
            batch = unpack(entry.payload)
            batch = batch.filter(batch.column("body").is_valid())
            if entry.topic == forms:
                inbound.sum_offers.extend(read_sums(batch, self.name))
            else:
                inbound.grants.extend(read_grants(batch))
            self._position = entry.position
        return inbound

    def _deliver(self, inbound: Inbound) -> None:
        """Let news arrive: late, twice or not at all, each row by itself."""
        arriving = Inbound([], [])
        for form in inbound.sum_offers:
            self._send_on(Inbound([form], []), arriving)
        for grant in inbound.grants:
            if self._cluster.owners.get(grant.item) == self.name:
                self._send_on(Inbound([], [grant]), arriving)
        if arriving.sum_offers or arriving.grants:
            self._arrive(arriving)

    def _send_on(self, item: Inbound, arriving: Inbound) -> None:
        cluster = self._cluster
        if cluster.occurs("lost_grant"):
            return
        if cluster.occurs("late_grant"):
            cluster.after(self._later(), lambda: self._arrive(item))
            return
        arriving.sum_offers.extend(item.sum_offers)
        arriving.grants.extend(item.grants)
        if cluster.occurs("repeated_grant"):
            cluster.after(self._later(), lambda: self._arrive(item))

    def _arrive(self, inbound: Inbound) -> None:
        if self.core is not None:
            self._cluster.count("form", len(inbound.sum_offers))
            self._cluster.count("grant", len(inbound.grants))
            self.core.apply_sum_offers(inbound.sum_offers, self.clock)
            self._see_sums()
            self.core.grant(inbound.grants, self.clock)
            self._see_sums()
            self._post()

    def _later(self) -> float:
        return self._cluster.between(0.1, 2.5) * self._cluster.stream.options.boundary

    def _pause(self) -> int:
        return int(self._cluster.between(0.15, 0.4) * self._cluster.stream.options.latency)

    def _small_skew(self) -> float:
        return self._cluster.between(-0.1, 0.1) * self._cluster.stream.options.latency
