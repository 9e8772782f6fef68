"""Polling through outages: of the answers that say that they are settled, how many are within their tolerance?

A web server in this process, on loopback, whose items walk and jump, tick by tick, and whose truth is written down. A
poller (`StreamPoller`) asks it over HTTP, by a log in memory; the pipeline's own shard reads that log and answers,
without Spark. Time is the benchmark's: a tick of a second begins when everything asked for in the last one has come, so
that a busy machine changes nothing but how long it takes. Phases, one after the other: a cold start; steady; all items
fail; three items fail; one item fails for ever; the poller is killed; and a new one continues with what the log has.

At the end of every tick each query's answer, as it was known then, is compared with the truth of that tick. In every
window of 30 s after the first 60 s, the share of settled answers that are right must be at least the fidelity that they
claim in the mean. In full that is six worlds of 21 minutes each, about ten minutes of this machine's; `--quick` is one
of seven, and judges no window.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from side_by_side import Figure, arguments, report
from tolerant.client import StatementClient
from tolerant.edge.polling import StreamPoller
from tolerant.edge.polling.stream_poller import warm
from tolerant.kinds.polled.shard import PolledShard
from tolerant.sql import CreateStream, parse
from tolerant.streams import SECOND
from tolerant.testing.faulty_server import FaultyServer
from tolerant.transport import MemoryLog
from tolerant.transport.rows import clock_batch, unpack

ITEMS, QUERIES, SIZE = 60, 40, 8
FIDELITY, WITHIN = 0.95, 2.5
JUMPS, JUMP = 0.01, 8.0  # how often an item jumps, and how many times its usual step
TICK = SECOND  # the default
MORNING = 1_700_000_000 * SECOND  # when it begins
WINDOW, FIRST = 30, 60  # ticks
PHASES = {
    "cold start": 180, "steady": 240, "outage of all": 65, "after it": 120, "three items fail": 90, "after that": 90,
    "one fails for ever": 240, "no poller": 60, "a new poller": 180,
}  # fmt: skip
QUICK = 0.35  # of the ticks
SEEDS = 6
COLUMNS = {
    "settled and right": "settled and right",
    "fidelity claimed": "claimed",
    "worst window: right, less claimed": "worst half minute: right, less claimed",
    "settled, of all answers": "settled, of all answers",
    "requests per second": "requests per second",
}
"""The figures of a phase, with their names in the table of `docs/polling.md`."""
TOPICS = ["queries", "updates.quotes", "pulls.quotes"]
Floats = NDArray[np.float64]


@dataclass
class Seen:
    """What was seen at the ends of ticks: the answers then, by query; the items' values; requests so far; the phase.
    `members`: the items of each query.
    """

    members: list[NDArray[np.int64]]
    answers: list[list[dict[str, object] | None]] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)


class Pipeline:
    """A shard of the stream, fed from the log as a pipeline would: clock rows are its own."""

    def __init__(self, log: MemoryLog, shard: PolledShard) -> None:
        self._log, self._shard, self._position = log, shard, 0
        self.answers: dict[str, list[dict[str, object]]] = {}

    def advance(self, now: int) -> None:
        """Read what there is, as of `now`."""
        self._log.append("updates.quotes", clock_batch(now, 1, "benchmark"))
        entries = self._log.read(TOPICS, self._position)
        for output in self._shard.apply(entries):
            if output.topic.startswith("answers."):
                self.answers.setdefault(output.topic[8:], []).extend(unpack(output.payload).to_pylist())
        self._position = entries[-1].position


def main() -> None:
    quick = arguments(__doc__ or "").quick
    lengths = {phase: max(WINDOW, int(ticks * (QUICK if quick else 1))) for phase, ticks in PHASES.items()}
    warm()
    worlds = [asyncio.run(play(lengths, seed)) for seed in range(1 if quick else SEEDS)]
    figures = figures_of(worlds, quick)
    inputs = {"items": ITEMS, "queries": QUERIES, "items per query": SIZE, "tick": "1 s", "fidelity": FIDELITY}
    kept = report("polling-outages", inputs | {"ticks": len(worlds[0].values), "worlds": len(worlds)}, figures)
    print(table({figure.name: figure.value for figure in figures}))
    sys.exit(0 if kept else 1)


async def play(lengths: dict[str, int], seed: int) -> Seen:
    """Go through the phases; what was seen."""
    rng = np.random.default_rng(seed)
    names = [f"s{k:02}" for k in range(ITEMS)]
    members = [rng.choice(ITEMS, SIZE, replace=False) for _ in range(QUERIES)]
    async with FaultyServer(dict.fromkeys(names, 100.0)) as server:
        log = MemoryLog()
        created, *queries = map(parse, statements(server.url, names, members))
        assert isinstance(created, CreateStream)
        for statement in (created, *queries):
            StatementClient(log).send(statement)
        pipeline, seen = Pipeline(log, PolledShard(created.stream)), Seen(members)
        walk, clock = Walk(rng, server, names), Clock()
        poller = await Polling.start(log, clock)
        for phase, ticks in lengths.items():
            server.faults = faults_of(phase, names)
            if phase == "no poller":
                await poller.kill()
            if phase == "a new poller":
                poller = await Polling.start(log, clock)
            for _ in range(ticks):
                walk.step()
                await poller.tick()
                clock.now += TICK
                pipeline.advance(clock.now)
                seen.values.append(walk.values)
                seen.requests.append(len(server.requests))
                seen.phases.append(phase)
        await poller.kill()
        pipeline.advance(clock.now + 2 * TICK)
    ends = [MORNING + (tick + 1) * TICK for tick in range(len(seen.values))]
    by_query = [at_ends(pipeline.answers.get(f"q{k}", []), ends) for k in range(QUERIES)]
    seen.answers = [list(answers) for answers in zip(*by_query, strict=True)]
    return seen


class Clock:
    """Time as the benchmark says. A poller that waits for its next tick is `waiting`, until `go`."""

    def __init__(self) -> None:
        self.now = MORNING
        self.waiting, self.go = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait until the benchmark advances the time."""
        self.waiting.set()
        await self.go.wait()
        self.go.clear()


class Polling:
    """A poller that runs tick by tick, until it is killed."""

    def __init__(self, poller: StreamPoller, clock: Clock) -> None:
        self._poller, self._clock = poller, clock
        clock.waiting.clear()
        clock.go.clear()
        self._task = asyncio.create_task(poller.run())

    @classmethod
    async def start(cls, log: MemoryLog, clock: Clock) -> Polling:
        """A new process, so to say: it knows what the log says."""
        return cls(StreamPoller("quotes", log, "poller", clock=lambda: clock.now, sleep=clock.sleep), clock)

    async def tick(self) -> None:
        """Return when what was asked for in this tick has come."""
        if self._task.done():
            return
        waiting = asyncio.create_task(self._clock.waiting.wait())
        await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task  # raises what ended it
        self._clock.waiting.clear()
        if self._poller.http is not None:
            await self._poller.http.drain()
        self._clock.go.set()

    async def kill(self) -> None:
        """Nothing is kept any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def statements(url: str, names: Sequence[str], members: Sequence[NDArray[np.int64]]) -> Iterable[str]:
    yield (
        f"CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM '{url}/quote/{{symbol}}' WITH ("
        "path = '$.price')"
    )
    for number, items in enumerate(members):
        listed = ", ".join(f"'{names[k]}'" for k in items)
        yield (
            f"CREATE QUERY q{number} AS SELECT SUM(price) FROM quotes WHERE symbol IN ({listed})"
            f" WITHIN {WITHIN} FIDELITY {FIDELITY}"
        )


def faults_of(phase: str, names: Sequence[str]) -> dict[str, str | None]:
    failing = {"outage of all": names, "three items fail": names[:3], "after that": [], "after it": []}
    forever = names[7:8] if phase in ("one fails for ever", "no poller", "a new poller") else []
    return dict.fromkeys([*failing.get(phase, []), *forever], "500")


class Walk:
    """Items that walk, each at its own pace, and jump."""

    def __init__(self, rng: np.random.Generator, server: FaultyServer, names: Sequence[str]) -> None:
        self._rng, self._server, self._names = rng, server, names
        self._steps = rng.uniform(0.05, 0.2, len(names))
        self.values = np.full(len(names), 100.0)

    def step(self) -> None:
        """The values of the next tick."""
        normal = self._rng.normal(size=(2, len(self._names)))
        jumps = (self._rng.random(len(self._names)) < JUMPS) * normal[1] * JUMP
        self.values = self.values + (normal[0] + jumps) * self._steps
        self._server.values.update(zip(self._names, self.values.tolist(), strict=True))


def at_ends(answers: Sequence[dict[str, object]], ends: Sequence[int]) -> list[dict[str, object] | None]:
    """The newest answer as of each of these times, which grow."""
    newest, place = [], 0
    for end in ends:
        while place < len(answers) and int(answers[place]["at"]) <= end:  # type: ignore[call-overload]
            place += 1
        newest.append(answers[place - 1] if place else None)
    return newest


@dataclass(frozen=True)
class Judged:
    """Settled answers: how many, how many of them right, what they claimed in all; and how many answers there were."""

    settled: int
    right: int
    claimed: float
    all: int

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.settled + other.settled, self.right + other.right, self.claimed + other.claimed, self.all + other.all
        )

    @property
    def share(self) -> float:
        """Of the settled ones that were right; NaN of none."""
        return self.right / self.settled if self.settled else float("nan")

    @property
    def claim(self) -> float:
        """The fidelity that they claimed, in the mean."""
        return self.claimed / self.settled if self.settled else float("nan")


def judge(seen: Seen, ticks: Iterable[int]) -> Judged:
    right = total = 0
    claims = []
    for tick in ticks:
        for query, answer in enumerate(seen.answers[tick]):
            total += 1
            if answer is None or answer["stale"] or answer["settling"]:
                continue
            claims.append(float(answer["fidelity"]))
            truth = seen.values[tick][seen.members[query]].sum()
            right += int(abs(float(answer["value"]) - truth) <= WITHIN)
    return Judged(len(claims), right, math.fsum(claims), total)  # a sum with rounding is more than 1,200 times 0.95


def windows_of(seen: Seen) -> list[tuple[int, Judged]]:
    """The windows that have settled answers, each with the tick at which it begins."""
    starts = range(FIRST, len(seen.values) - WINDOW + 1, WINDOW)
    judged = ((start, judge(seen, range(start, start + WINDOW))) for start in starts)
    return [(start, window) for start, window in judged if window.settled]


def figures_of(worlds: Sequence[Seen], quick: bool) -> list[Figure]:
    figures, phases, length = [], worlds[0].phases, len(worlds[0].values)
    windows = [(phases[start], start, window) for seen in worlds for start, window in windows_of(seen)]
    for phase, start, window in windows:
        if window.share < window.claim:
            said = f"{window.settled} settled, {window.share:.3f} right, {window.claim:.3f} claimed"
            print(f"  window from tick {start} ({phase}): {said}")
    for phase in dict.fromkeys(phases):
        ticks = [tick for tick, name in enumerate(phases) if name == phase]
        judged = sum((judge(seen, ticks) for seen in worlds), Judged(0, 0, 0.0, 0))
        asked = sum(seen.requests[ticks[-1]] - seen.requests[ticks[0]] for seen in worlds) / len(worlds) / len(ticks)
        worst = min((window.share - window.claim for begun, _, window in windows if begun == phase), default=math.nan)
        bar = "" if math.isnan(worst) else "≥ 0"
        figures += [
            Figure(f"{phase}: settled and right", judged.share, ""),
            Figure(f"{phase}: fidelity claimed", judged.claim, ""),
            Figure(
                f"{phase}: worst window: right, less claimed", worst, "", bar,
                None if quick or not bar else worst >= 0,
            ),
            Figure(f"{phase}: settled, of all answers", judged.settled / judged.all, ""),
            Figure(f"{phase}: requests per second", asked, ""),
        ]  # fmt: skip
    whole = sum((judge(seen, range(FIRST, length)) for seen in worlds), Judged(0, 0, 0.0, 0))
    after = max(map(recovery, worlds))
    return [
        *figures,
        Figure(
            "all: settled and right, less claimed", whole.share - whole.claim, "", "≥ 0", whole.share >= whole.claim
        ),
        Figure(f"windows of {WINDOW} ticks with settled answers", len(windows), ""),
        Figure("ticks from an outage's end to 9 in 10 settled", after, "", f"≤ {WINDOW}", after <= WINDOW),
    ]


def recovery(seen: Seen) -> int:
    begin = seen.phases.index("after it")
    for tick in range(begin, len(seen.phases)):
        settled = [answer is not None and not (answer["stale"] or answer["settling"]) for answer in seen.answers[tick]]
        if np.mean(settled) >= 0.9:
            return tick - begin
    return len(seen.phases) - begin


def table(values: Mapping[str, Any]) -> str:
    """The figures of the phases, by their names, as the table of `docs/polling.md`."""
    lines = [f"| phase | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
    for phase in PHASES:
        cells = (values[f"{phase}: {name}"] for name in COLUMNS)
        lines.append(f"| {phase} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
