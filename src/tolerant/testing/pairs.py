"""The seeded fault simulator for pairs of tables: feeders, people, pipelines and a client in one process.

`simulate_pair(seed)` plays one history and checks it: every subscription to a join must have received exactly the
result rows that brute force over the log yields (`PairTruth`), once and in order, whatever was repeated, late, lost in
a crash or published again by a pipeline that started from an empty checkpoint; and a client that crashes and resumes
must have its result rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tolerant.client import Client, Position
from tolerant.kinds.joins.shard import PairShard
from tolerant.sql import CreateQuery, CreateTable, JoinInput, Subscribe, Unsubscribe, parse
from tolerant.testing.pair_truth import PairTruth, Told
from tolerant.testing.rows_simulation import OPTIONS, Feeder, RowsSimulation
from tolerant.transport.rows import unpack
from tolerant.transport.topics import answers_topic

_STATEMENTS = [
    parse(text)
    for text in (
        "CREATE TABLE supply (id BIGINT, k STRING, x DOUBLE) KEY (id)",
        "CREATE TABLE demand (id BIGINT, k STRING, x DOUBLE) KEY (id)",
        "CREATE QUERY near(low, high) AS SELECT * FROM supply r JOIN demand s ON s.x - r.x BETWEEN low AND high",
        "CREATE QUERY same(low, high) AS SELECT * FROM demand s JOIN supply r ON r.k = s.k"
        " WHERE r.x BETWEEN low AND high AND s.x BETWEEN -9 AND high",
        "CREATE QUERY close AS SELECT * FROM supply r JOIN demand s ON s.x - r.x BETWEEN -1 AND 0.2",
    )
]
_TABLES = tuple(statement for statement in _STATEMENTS if isinstance(statement, CreateTable))
_QUERIES = {statement.name: statement for statement in _STATEMENTS if isinstance(statement, CreateQuery)}
_PAIR = JoinInput.of(*_TABLES)


@dataclass(frozen=True)
class PairReport:
    """What a simulated history came to."""

    seed: int
    violations: list[str]
    results: int
    restarts: int

    @property
    def ok(self) -> bool:
        """Whether everybody was told what they had to be."""
        return not self.violations


def simulate_pair(seed: int, steps: int = 120) -> PairReport:
    """Play a history of so many steps, and judge it. The same seed plays the same."""
    simulation = _Simulation(seed)
    simulation.play(steps)
    return simulation.judge()


class _Simulation(RowsSimulation):
    KEYS, SIZES = 4, (1, 1, 2)

    def __init__(self, seed: int) -> None:
        feeders = [(f"feeder of {table.name}", table) for table in _TABLES]
        super().__init__(seed, _STATEMENTS, _PAIR.name, lambda: PairShard(_PAIR), feeders)
        self._held: set[tuple[str, str]] = set()  # what a client knows of the results of `close`
        self._place: Position | None = None
        self._misheard: list[str] = []

    def _moment(self, feeder: Feeder) -> int:
        """Now and then a transaction has the time of another's."""
        other = max(feeder_.at for feeder_ in self._feeders)
        return other if self._random.random() < 0.3 else super()._moment(feeder)

    def _row(self, key: int) -> tuple[Any, ...]:
        return key, self._random.choice("pq"), self._random.choice([-1.0, 0.0, 0.1, 0.3, 1.0, 2.5])

    def _statement(self) -> Subscribe | Unsubscribe:
        chance = self._random
        kind = Subscribe if chance.random() < 0.7 else Unsubscribe
        low = chance.choice([-1.0, 0.0, 0.2])
        return kind(chance.choice(["near", "same"]), (low, low + chance.choice([0.0, 1.0, 2.5])))

    def _listen(self, whole: bool = False) -> None:
        """A client comes up with what it kept, hears what there is, deals with some of it, and dies."""
        subscription = Client(self._log).subscribe("close", position=self._place)
        if self._place is None:
            self._held = set()
        ready = list(subscription.ready())
        while subscription.poll():
            ready += subscription.ready()
        whole |= self._place is None or self._random.random() < 0.5
        for change in ready if whole else ready[: self._random.randint(0, len(ready))]:
            result = _texts(change.row, "close")
            if (result in self._held) == (change.kind == "insert"):
                self._misheard.append(f"a client hears {change}, and holds {sorted(self._held)}")
            (self._held.add if change.kind == "insert" else self._held.discard)(result)
            self._place = change.position or self._place

    # -- judgement ---------------------------------------------------------------------------------------------------

    def judge(self) -> PairReport:
        """Checks the published result rows against the truth."""
        truth = PairTruth(_TABLES, OPTIONS.latency, OPTIONS.lease)
        truth.read(self._log.read(self._topics))
        violations, received = list(self._misheard), self._told()
        for who in sorted({*truth.told, *received}):
            expected, actual = sorted(truth.told.get(who, [])), sorted(received.get(who, []))
            if actual != expected:
                violations.append(f"{who} was told {actual}, not {expected}")
        if self._held != truth.results(("close", 0)):
            violations.append(f"a client holds {sorted(self._held)}, not {sorted(truth.results(('close', 0)))}")
        return PairReport(self._seed, violations, sum(map(len, received.values())), self._restarts)

    def _told(self) -> dict[tuple[str, int], list[Told]]:
        """(query, subscription) → what was said to it, repeated steps left out, as a client would."""
        received: dict[tuple[str, int], list[Told]] = {}
        for query in _QUERIES:
            newest = -1
            for entry in self._log.read(answers_topic(query)):
                rows = [row for row in unpack(entry.payload).to_pylist() if row["step"] > newest]
                for row in rows:
                    result = {n.removeprefix("row."): value for n, value in row.items() if n.startswith("row.")}
                    text = (row["step"], row["kind"], row["at"], *_texts(result, query))
                    for number in row["subscriptions"]:
                        received.setdefault((query, number), []).append(text)
                newest = max([newest, *(row["step"] for row in rows)])
        return received


def _texts(result: dict[str, Any], query: str) -> tuple[str, str]:
    """The rows that a result row is of, as `PairTruth.results` writes them."""
    select: Any = _QUERIES[query].select
    left, right = (
        repr({n.removeprefix(f"{name}."): value for n, value in result.items() if n.startswith(f"{name}.")})
        for name in (select.left, select.right)
    )
    return left, right
