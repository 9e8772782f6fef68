"""The truth check can fail: on a simulated plant it finds nothing wrong with the pipeline, and something with each of
several broken ones, and with answers that were tampered with, for every aggregate.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from sensors import reading
from test_truth_check import LATENCY, LEASE, PROCESSES, SENSORS, STATEMENTS, WITHIN
from truth_checker import EPOCH, SOON, LateRow, Truth, Verdict, check, late_appends, late_rows, lives, undue

from tolerant.client import StatementClient
from tolerant.edge import Source
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.queries import Answer
from tolerant.streams import SECOND
from tolerant.transport.log import Entry
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import clock_batch, unpack

BEGIN = 1_000_000 * SECOND
STEP = SECOND // 10
SECONDS, DIES, RETURNS = 45, 20, 35
CLIMB = 3.0  # per second, of all sensors: what has died stays behind


class Extrapolates(BoundedShard):
    """Predicted centres move on, whether or not their source is known to live."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._engine.liveness.record_lived = lambda items: items[:0]


class TrustsForEver(BoundedShard):
    """Leases never end."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._engine.sources.next_silence = lambda rows, until: None
        self._engine.sources.fallen_silent = lambda at: np.empty(0, np.int64)


class LosesEntries(BoundedShard):
    """Of the entries of sources, one in twenty is not applied."""

    def apply(self, batch: Sequence[Entry]) -> list:
        return super().apply([entry for entry in batch if entry.position % 20 or not _is_update(entry)])


def _is_update(entry: Entry) -> bool:
    return entry.topic == "updates.plant" and unpack(entry.payload).column("kind")[0].as_py() != "clock"


class SimulatedPlant:
    """The sensors of `test_truth_check` and a shard, in one thread and on a simulated clock. One process dies with
    values that the log never saw, and comes back when its lease is over.
    """

    def __init__(self, folder: Path, pipeline: type[BoundedShard]) -> None:
        self.folder, self.log, self.now, self.position = folder, MemoryLog(), BEGIN, 0
        for statement in StatementClient(self.log).parse(STATEMENTS):
            StatementClient(self.log).send(statement)
        self.shard = pipeline(StatementClient(self.log).parse(STATEMENTS)[0].stream, 0, 1, "simulated")
        self.random, self.sources = np.random.default_rng(20), {}
        self.walks = np.zeros(SENSORS)

    def run(self) -> None:
        for number in range(PROCESSES):
            self.start(number)
        while self.now < BEGIN + SECONDS * SECOND:
            self.now += STEP
            self.set()
            if self.now == BEGIN + DIES * SECOND:
                del self.sources[1]
            elif self.now == BEGIN + RETURNS * SECOND:
                self.start(1)
            for source in self.sources.values():
                source.advance()
            self.log.append("updates.plant", clock_batch(self.now, 1, "simulated"))
            self.apply()

    def start(self, number: int) -> None:
        self.sources[number] = Source("plant", self.log, f"sensors-{number}", clock=lambda: self.now)

    def set(self) -> None:
        values = reading(np.arange(SENSORS), self.now / SECOND, self.random, self.walks)
        values += CLIMB * (self.now - BEGIN) / SECOND
        for number, source in self.sources.items():
            own = range(number * SENSORS // PROCESSES, (number + 1) * SENSORS // PROCESSES)
            at = source.set_many([f"sensor-{sensor:03}" for sensor in own], values[own.start : own.stop])
            with open(self.journal(number), "a") as file:
                file.write(
                    " ".join([str(at), str(own.start), *map(repr, values[own.start : own.stop].tolist())]) + "\n"
                )

    def apply(self) -> None:
        entries = self.log.read(("updates.plant", "queries"), self.position)
        self.position = entries[-1].position
        outputs = self.shard.apply(entries)
        self.log.append_packed([(output.topic, output.payload) for output in outputs])

    def journal(self, number: int) -> Path:
        return self.folder / f"sensors-{number}.journal"

    @cached_property
    def rows(self) -> list[dict]:
        return [row for entry in self.log.read("updates.plant") for row in unpack(entry.payload).to_pylist()]

    def answers(self) -> dict[str, list[Answer]]:
        topics = {query: self.log.read(f"answers.{query}") for query in WITHIN}
        return {
            query: [Answer(**row) for entry in entries for row in unpack(entry.payload).to_pylist()]
            for query, entries in topics.items()
        }

    @cached_property
    def truth(self) -> Truth:
        journals = {f"sensors-{number}": self.journal(number) for number in range(PROCESSES)}
        return Truth(journals, lives(self.rows), SENSORS)

    def verdict(self, answers: dict[str, list[Answer]]) -> Verdict:
        late = late_rows(self.rows, LATENCY)
        return check(answers, WITHIN, self.truth, lives(self.rows), late, lease=LEASE, end=self.now - LATENCY)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> SimulatedPlant:
    made = SimulatedPlant(tmp_path_factory.mktemp("plant"), BoundedShard)
    made.run()
    return made


def test_the_pipeline_passes_and_every_aggregate_is_checked(plant: SimulatedPlant) -> None:
    verdict = plant.verdict(plant.answers())
    assert verdict.broken == []
    assert verdict.late == []
    assert {query for query, count in verdict.checked.items() if count} == set(WITHIN)
    assert verdict.moments > 500


@pytest.mark.parametrize("pipeline", [Extrapolates, TrustsForEver, LosesEntries], ids=lambda one: one.__name__)
def test_a_broken_pipeline_is_caught(pipeline: type[BoundedShard], tmp_path: Path) -> None:
    plant = SimulatedPlant(tmp_path, pipeline)
    plant.run()
    assert plant.verdict(plant.answers()).broken


def move(answers: list[Answer], down: float, up: float) -> list[Answer]:
    """The ends of settled answers moved."""
    return [
        replace(answer, low=answer.low - down, high=answer.high + up)
        if answer.settled and answer.value is not None
        else answer
        for answer in answers
    ]


def shifted(answers: list[Answer], within: float) -> list[Answer]:
    """Off by a little more than is allowed."""
    return move(answers, -2 * within - 0.01, 2 * within + 0.01)


def widened(answers: list[Answer], within: float) -> list[Answer]:
    """Wider than is allowed."""
    return move(answers, 0.01, 2 * within)


def boastful(answers: list[Answer], within: float) -> list[Answer]:
    """Settled, whatever happens."""
    return [replace(answer, stale=False, settling=False) for answer in answers]


def rare(answers: list[Answer], within: float) -> list[Answer]:
    """Only the first settled one."""
    return [answer for answer in answers if answer.settled and answer.value is not None][:1]


def empty(answers: list[Answer], within: float) -> list[Answer]:
    """Nothing to aggregate."""
    return [replace(answer, low=None, value=None, high=None) for answer in answers]


TAMPERED = [(tamper, query) for tamper in (shifted, widened, boastful, rare, empty) for query in WITHIN]
TAMPERED.remove((boastful, "count"))  # how many sensors there are is known of dead ones too


@pytest.mark.parametrize(("tamper", "query"), TAMPERED, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_tampering_with_the_answers_of_any_query_is_caught(
    plant: SimulatedPlant, tamper: Callable[[list[Answer], float], list[Answer]], query: str
) -> None:
    answers = plant.answers()
    answers[query] = tamper(answers[query], WITHIN[query])
    broken = plant.verdict(answers).broken
    assert {one.query for one in broken} == {query}


def test_a_line_that_a_kill_has_cut_does_not_count(tmp_path: Path, plant: SimulatedPlant) -> None:
    whole = plant.journal(0).read_text().splitlines(keepends=True)[0]
    spans = lives(plant.rows)
    for text, count in ((whole, 1), (whole[:-4], 0)):
        (tmp_path / "journal").write_text(text)
        assert len(Truth({"sensors-0": tmp_path / "journal"}, spans, SENSORS).at) == count


def delayed(rows: list[dict], is_delayed: Callable[[dict], bool], steps: int) -> list[dict]:
    """The rows of a log in which some come so many clock rows later."""
    waiting: list[tuple[int, dict]] = []
    found = []
    for row in rows:
        if row["kind"] != "clock" and is_delayed(row):
            waiting.append((steps, row))
            continue
        found.append(row)
        if row["kind"] == "clock":
            found += [one for left, one in waiting if left == 1]
            waiting = [(left - 1, one) for left, one in waiting if left > 1]
    return found


def test_a_first_set_that_is_late_by_its_own_doing_is_caught(plant: SimulatedPlant) -> None:
    """Under the latency that streams have by default, and whatever was killed or started then."""
    spans = lives(plant.rows)
    back = next(life for life in spans if life.epoch == 2)

    def is_first(row: dict) -> bool:
        return (row["source"], row["sequence"] >> EPOCH, row["kind"]) == (back.source, back.epoch, "hello")

    late = late_appends(late_rows(delayed(plant.rows, is_first, 7), LATENCY))
    assert {(row.source, row.epoch) for row in late} == {(back.source, back.epoch)}
    assert undue(late, spans, [back.begin] * 100) == late
    assert late_rows(delayed(plant.rows, is_first, 7), 2 * SECOND) == []  # which a longer latency hides


def test_one_late_append_is_excused_for_each_kill_right_after_it(plant: SimulatedPlant) -> None:
    spans = lives(plant.rows)
    late = [LateRow(BEGIN + second * SECOND, BEGIN + second * SECOND + STEP, "sensors-0", 1) for second in (10, 11)]
    kill = BEGIN + 9 * SECOND
    assert undue(late, spans, [kill, kill]) == []
    assert undue(late, spans, [kill]) == late[1:]
    assert undue(late, spans, [kill - SOON, late[0].end + STEP]) == late[:1]
