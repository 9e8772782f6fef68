"""A whole network in one process and one thread: sources, aggregators and the pipeline's shard on a log in memory,
under a seeded scheduler that delays, repeats, kills and restarts; and the audit of what was answered. Odd seeds let
items be split.

```python
simulation = SimulatedNetwork(seed=7)
simulation.run(seconds=60)
assert not simulation.violations()
```
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tolerant.client import Client, StatementClient
from tolerant.edge import Source
from tolerant.edge.aggregators import Aggregator
from tolerant.kinds.network.shard import NetworkShard
from tolerant.pipeline.hosting import Output
from tolerant.planning import Network, network_text
from tolerant.queries import Answer
from tolerant.sql import AggregateSelect, CreateQuery, CreateStream, parse
from tolerant.sql.networks import aggregates, tightest_of
from tolerant.streams import SECOND, SPLIT
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import QUERIES, TopicKind, reports_topic, updates_topic

STREAM = (
    "CREATE STREAM prices (item STRING, price DOUBLE) KEY (item) FROM 'network.toml'"
    " WITH (tick = '100 ms', period = 10, latency = '500 ms', lease = '3 s')"
)
_REPEATED = (TopicKind.UPDATES, TopicKind.COPIES, TopicKind.REPORTS)  # topics whose entries may come twice
_BEGIN = 1_000 * SECOND
_STEP = SECOND // 20
"""Microseconds between two turns of the scheduler."""


def random_network(rng: random.Random, items: Sequence[str], trees: bool = True) -> Network:
    """Some aggregators, each with some of the items; every item somewhere; perhaps with parents."""
    names = [f"D{number}" for number in range(1, rng.randint(2, 5) + 1)]
    bounds: dict[str, dict[str, float]] = {}
    parents: dict[str, str] = {}
    for name in names:
        served = rng.sample(list(items), rng.randint(1, len(items)))
        parent = rng.choice(list(bounds)) if bounds and trees and rng.random() < 0.5 else None
        least = bounds[parent] if parent else {}
        bounds[name] = {item: least.get(item, 0.0) + rng.choice((0.0, 0.05, 0.2, rng.random())) for item in served}
        if parent:
            parents[name] = parent
    for item in items:
        if not any(item in served for served in bounds.values()):
            bounds[names[0]][item] = 0.0
    return Network(bounds, parents)


@dataclass
class _Journal:
    """What an item was when."""

    ats: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def at(self, moment: int) -> float | None:
        place = bisect_right(self.ats, moment) - 1
        return None if place < 0 else self.values[place]


class SimulatedNetwork:
    """See the module. network: default a random one. faults: whether processes die, and rows come twice."""

    def __init__(
        self, seed: int, network: Network | None = None, *, faults: bool = True, queries: Sequence[str] | None = None
    ) -> None:
        self.rng = rng = random.Random(seed)
        self.items = [f"S{number}" for number in range(1, rng.randint(2, 6) + 1)]
        self.network = network or random_network(rng, self.items)
        self.items = list(self.network.items)
        self.faults, self.now = faults, _BEGIN
        self.log = MemoryLog()
        statement = parse(STREAM)
        assert isinstance(statement, CreateStream)
        options = statement.stream.options
        if seed % 2:  # so that items are answered by several aggregators, a share each
            options = replace(options, policy=SPLIT)
        self.stream = replace(statement.stream, network=network_text(self.network), options=options)
        StatementClient(self.log).send(CreateStream(self.stream))
        self.values = {item: rng.uniform(-10, 10) for item in self.items}
        self.steps = {item: rng.choice((0.0, 0.02, 0.1, 0.5)) for item in self.items}
        self.journal = {item: _Journal() for item in self.items}
        self.sources: dict[str, Source | None] = {}
        self.owner = {item: f"source-{rng.randint(1, 2)}" for item in self.items}
        self.aggregators: dict[str, Aggregator | None] = dict.fromkeys(self.network.aggregators)
        self.wake: dict[str, int] = {}
        self.epoch, self.position = 1, 0
        self.history = ShardHistory()
        self.shard = self._born()
        self.within: dict[str, float] = {}
        for text in queries if queries is not None else self._queries():
            StatementClient(self.log).send(parse(text))

    def _queries(self) -> list[str]:
        texts = []
        for number, fn in enumerate(("SUM", "AVG", "MAX", "MIN")):
            some = self.rng.sample(self.items, self.rng.randint(1, len(self.items)))
            listed = ", ".join(f"'{item}'" for item in some)
            name, factor = f"q{number}", "-2 * " if fn == "SUM" and self.rng.random() < 0.5 else ""
            text = f"CREATE QUERY {name} AS SELECT {fn}({factor}price) FROM prices WHERE item IN ({listed})"
            least = self._tightest(text)
            texts.append(f"{text} WITHIN {least * self.rng.choice((1.0, 1.3, 3.0)) + 0.01:.6f}")
        return texts

    def _tightest(self, text: str) -> float:
        parsed = parse(f"{text} WITHIN 1")
        assert isinstance(parsed, CreateQuery)
        select = AggregateSelect.of(parsed)
        return max(tightest_of(aggregate, self.network) for aggregate in aggregates("q", select, self.stream))

    # -- a life ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + int(seconds * SECOND)
        while self.now < end:
            self.turn()

    def turn(self) -> None:
        """One step of the scheduler: who acts, and what goes wrong."""
        self.now += _STEP
        rng = self.rng
        if self.faults and rng.random() < 0.01:
            self._fault()
        self._feed()
        for name in self.aggregators:
            if self.now >= self.wake.get(name, 0):
                self._aggregate(name)
        if rng.random() < 0.5:
            self.log.append(updates_topic(self.stream.name), clock_batch(self.now, self.epoch, "checkpoint"))
        if rng.random() < 0.3:
            self.read()

    def _feed(self) -> None:
        if (self.now // _STEP) % 2:
            return
        for item in self.items:
            if self.rng.random() < 0.7:
                self.values[item] += self.rng.gauss(0, self.steps[item])
        for name in sorted(set(self.owner.values())):
            source = self.sources.get(name)
            if source is None:
                source = self.sources[name] = Source("prices", self.log, name, clock=lambda: self.now)
            mine = [item for item in self.items if self.owner[item] == name]
            at = source.set_many(mine, [self.values[item] for item in mine])
            for item in mine:
                self.journal[item].ats.append(at)
                self.journal[item].values.append(self.values[item])
            source.advance(self.now)

    def _aggregate(self, name: str) -> None:
        aggregator = self.aggregators[name]
        if aggregator is None:
            aggregator = self.aggregators[name] = Aggregator("prices", name, self.log, clock=lambda: self.now)
        before = self.log.end()
        aggregator.step()
        if self.faults and self.rng.random() < 0.05:
            self._repeat(before)
        self.wake[name] = self.now + self.rng.choice((_STEP, _STEP, 4 * _STEP))

    def _repeat(self, position: int) -> None:
        """What was just appended comes twice."""
        topics = [topic for topic in self.log.topics() if TopicKind.of(topic) in _REPEATED]
        again = [(entry.topic, entry.payload) for entry in self.log.read(topics, position)]
        if again:
            self.log.append_packed(again)

    def _fault(self) -> None:
        what = self.rng.choice(("aggregator", "aggregator", "source", "pipeline", "fold"))
        if what == "aggregator":
            self.kill(self.rng.choice(list(self.aggregators)), self.rng.choice((0.1, 1.0, 5.0, 12.0)))
        elif what == "source":
            self.sources[self.rng.choice(list(self.owner.values()))] = None
        elif what == "pipeline":
            self.restart()
        else:
            self.history.fold(self.shard.snapshot())

    def kill(self, name: str, seconds: float) -> None:
        """An aggregator dies, and comes back so much later."""
        self.aggregators[name] = None
        self.wake[name] = self.now + int(seconds * SECOND)

    def restart(self) -> None:
        """The pipeline dies, and starts again from what it has kept, under a new epoch."""
        self.epoch += 1
        self.shard = self._born()
        self.history.restore(self.shard)

    def _born(self) -> NetworkShard:
        return NetworkShard(self.stream, 0, "checkpoint")

    def read(self) -> list[Output]:
        """The shard takes what is in the log, in batches cut anyhow."""
        topics = [QUERIES, updates_topic("prices"), reports_topic("prices")]
        entries = self.log.read(topics, self.position)
        published: list[Output] = []
        while entries:
            cut = self.rng.randint(1, len(entries))
            part, entries = entries[:cut], entries[cut:]
            outputs = self.shard.apply(part)
            self.history.add(part)
            self.position = part[-1].position
            published += outputs
        self.log.append_packed([(output.topic, output.payload) for output in published])
        return published

    # -- the audit -------------------------------------------------------------------------------------------------

    def truth(self, query: str, at: int) -> float | None:
        """What a query really was."""
        aggregate = self.shard.planner.queries[query + "\x00"]
        values = {item: self.journal[item].at(at) for item in aggregate.weights}
        if any(value is None for value in values.values()):
            return None
        terms = [weight * values[item] for item, weight in aggregate.weights.items()]  # type: ignore[operator]
        if aggregate.fn in ("min", "max"):
            return min(terms) if aggregate.fn == "min" else max(terms)
        return math.fsum(terms) / (len(terms) if aggregate.fn == "avg" else 1)

    def answers(self, query: str) -> list[Answer]:
        """Everything that was answered."""
        return list(Client(self.log).history(query))

    def violations(self) -> list[tuple[Answer, float]]:
        """Settled answers that the truth was not in, or that were wider than promised; with the truth.

        An answer holds until the next one, so it is looked at again just before that.
        """
        wrong = []
        for instance, query in self.shard.planner.queries.items():
            name = instance.partition("\x00")[0]
            for answer, end in self._spans(name):
                wrong += [(answer, t) for t in self._wrong(name, answer, query.within, end)]
        return wrong

    def _wrong(self, name: str, answer: Answer, within: float, end: int) -> list[float]:
        wrong: list[float] = []
        if not answer.settled:
            return wrong
        assert answer.low is not None
        assert answer.high is not None
        slack = 1e-9 * (1 + abs(answer.high) + within)
        if answer.high - answer.low > 2 * within + slack:
            wrong.append(math.nan)
        for moment in {answer.at, (answer.at + end) // 2, end - 1}:
            truth = self.truth(name, moment)
            if truth is not None and moment >= answer.at and not answer.low - slack <= truth <= answer.high + slack:
                wrong.append(truth)
        return wrong

    def settled(self) -> float:
        """The share of the time, from each query's first answer on, for which its answer was settled."""
        settled = total = 0
        for instance in self.shard.planner.queries:
            for answer, end in self._spans(instance.partition("\x00")[0]):
                total += end - answer.at
                settled += (end - answer.at) * answer.settled
        return settled / total if total else 0.0

    def _spans(self, query: str) -> list[tuple[Answer, int]]:
        """Every answer of a query, with the time up to which it held: that of the next one, or of the watermark."""
        answers = self.answers(query)
        ends = [answer.at for answer in answers[1:]] + [self.shard.watermark or 0]
        return list(zip(answers, ends, strict=True)) if answers else []
