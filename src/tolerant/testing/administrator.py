"""The people in a simulation: one adds, alters and drops queries, one keeps the time, one starts pipelines when none
runs, or too many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tolerant.sql import AggregateSelect, AlterQuery, Catalogue, CreateQuery, CreateStream, Drop, In, Statement, render
from tolerant.sql.predicates import Compare
from tolerant.sql.statements import Function
from tolerant.testing.pipelines import Checkpoint, ShardFactory, SimulatedPipeline
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.transport.rows import clock_batch

_FUNCTIONS: tuple[Function, ...] = ("sum", "avg", "avg", "min", "max", "count")
_EXTREMES: tuple[tuple[Function, ...], ...] = (("min", "min", "count"), ("max", "max", "count"))
"""Only where all queries are of one of these may items go unheard."""


class Administrator:
    """Writes statements: some queries at the start, then changes while rows flow."""

    def __init__(self, cluster: SimulatedCluster, kinds: list[str], hosts: list[str]) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._hosts = hosts
        self._catalogue = Catalogue()
        self._made = 0
        random = cluster.random
        self._functions = random.choice(_EXTREMES) if random.random() < 0.3 else _FUNCTIONS
        self._write(CreateStream(cluster.stream), cluster.stream.name)
        for _ in range(cluster.random.randint(1, 3)):
            self._create()
        cluster.after(self._pause(), self._turn)

    def _turn(self) -> None:
        cluster = self._cluster
        cluster.after(self._pause(), self._turn)
        if not cluster.occurs("statement"):
            return
        names = list(self._catalogue.queries)
        choice = cluster.random.random()
        if not names or (choice < 0.35 and len(names) < 5):
            self._create()
        elif choice < 0.5:
            name = cluster.random.choice(names)
            self._write(Drop("query", name), name)
        elif choice < 0.95:
            name = cluster.random.choice(names)
            within = self._within() if cluster.random.random() < 0.3 else self._scaled(name)
            self._write(AlterQuery(name, within), name)
        else:
            name = cluster.random.choice(names)
            self._write(self._catalogue.queries[name], name)  # once more the same: nothing happens

    def _scaled(self, name: str) -> float:
        select = AggregateSelect.of(self._catalogue.queries[name])
        return select.within * self._cluster.random.choice([0.2, 0.5, 0.9, 1.5, 4.0])

    def _create(self) -> None:
        # Now and then under a name that a dropped query had.
        self._made += 1
        name = f"q{self._made if self._cluster.random.random() < 0.8 else max(1, self._made - 1)}"
        if name in self._catalogue.queries:
            name = f"q{self._made}"
        self._write(CreateQuery(name, (), self._select()), name)

    def _select(self) -> AggregateSelect:
        random = self._cluster.random
        fn: Function = random.choice(self._functions)
        select = AggregateSelect(
            self._cluster.stream.name, fn, within=0.0 if fn == "count" else self._within(), column="rate"
        )
        if fn in ("sum", "avg") and random.random() < 0.25:
            select = replace(select, factor=random.choice([-2.0, 0.5]))
        choice = random.random()
        if choice < 0.3:
            select = replace(select, where=Compare("kind", "=", random.choice(self._kinds)))
        elif choice < 0.45:
            select = replace(select, where=In("host", tuple(random.sample(self._hosts, 2))))
        if random.random() < 0.25:
            select = replace(select, group_by=(random.choice(["host", "kind"]),))
        return select

    def _within(self) -> float:
        return self._cluster.random.choice([0.0, 0.3, 2.0, 2.0, 5.0, 20.0])

    def _write(self, statement: Statement, name: str) -> None:
        outcome = self._catalogue.apply(statement)
        self._cluster.append_statement(statement, name)
        self._cluster.log_event(f"{render(statement)} ({outcome.message})")

    def _pause(self) -> float:
        return self._cluster.between(0.3, 1.2) * self._cluster.stream.options.boundary


class CommonClock:
    """Writes clock rows that are everybody's time, whether a pipeline runs or not, as a replay does."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        cluster.common_clock = True
        self._turn()

    def _turn(self) -> None:
        cluster, latency = self._cluster, self._cluster.stream.options.latency
        cluster.after(cluster.between(0.2, 1.0) * latency, self._turn)
        offset = cluster.between(-1, 0.3) * latency if cluster.occurs("pipeline_clock") else 0.0
        cluster.append_rows(clock_batch(int(cluster.now + offset)))


class Operator:
    """Starts pipelines: when none runs; on an old checkpoint or an empty one; now and then beside one that runs."""

    def __init__(self, cluster: SimulatedCluster, factory: ShardFactory, violated: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._factory = factory
        self._violated = violated
        self.checkpoints: list[Checkpoint] = []
        self.pipelines: list[SimulatedPipeline] = []
        cluster.after(cluster.between(0, 2) * cluster.stream.options.boundary, self._turn)

    def running(self) -> list[SimulatedPipeline]:
        """The pipelines that are alive, the newest last."""
        return [pipeline for pipeline in self.pipelines if pipeline.alive]

    def stop_faults(self) -> None:
        """One pipeline runs, and nothing is wrong with it."""
        while not self.running():
            self._start()
        for pipeline in self.running()[-1:]:  # it may have diverged at its start
            pipeline.stop_faults()

    def _turn(self) -> None:
        cluster = self._cluster
        cluster.after(cluster.between(0.2, 1) * cluster.stream.options.boundary, self._turn)
        if not self.running() or cluster.occurs("second_pipeline"):
            self._start()

    def _start(self) -> None:
        cluster = self._cluster
        in_use = [pipeline.checkpoint for pipeline in self.running()]
        free = [own for own in self.checkpoints if own not in in_use and not own.diverged]
        if not free or cluster.occurs("cold_start"):
            checkpoint = Checkpoint(f"c{len(self.checkpoints) + 1}")
            self.checkpoints.append(checkpoint)
        else:
            # Mostly the one that ran last.
            checkpoint = free[-1] if cluster.random.random() < 0.6 else cluster.random.choice(free)
            self.checkpoints.remove(checkpoint)
            self.checkpoints.append(checkpoint)
        self.pipelines.append(SimulatedPipeline(cluster, checkpoint, self._factory, self._violated))
