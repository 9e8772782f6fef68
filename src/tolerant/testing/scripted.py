"""A source that does what a script says and dies on cue, to test pipelines and queries without waiting for anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tolerant.edge import ItemKey, Source
from tolerant.transport import Log
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import updates_topic


@dataclass(frozen=True)
class Set:
    """At `at` (microseconds) the item has this value; None: it no longer exists."""

    at: int
    item: ItemKey
    value: float | None


@dataclass(frozen=True)
class Crash:
    """At `at` the source dies, without a word. What the script sets from then on happens unseen."""

    at: int


@dataclass(frozen=True)
class Restart:
    """At `at` the source starts again, and says what has become of its items."""

    at: int


Step: TypeAlias = Set | Crash | Restart


class ScriptedSource:
    """Plays a script in event time: each step at its time, everything that is due before it, and clock rows behind it.

    stream: the stream's name; it must exist in `log`.
    script: the steps, in order of their times.
    clock: append two clock rows after each step, so that a pipeline's time passes (`run --clock log`): one alone could
        not move it far. Of several sources that play side by side, one should.

    >>> from tolerant.testing import ScriptedSource, Set, Crash, Restart
    >>> script = [Set(1_000_000, "web-1", 5.0), Crash(2_000_000), Set(3_000_000, "web-1", 9.0), Restart(4_000_000)]
    >>> ScriptedSource("load", log, script).play()  # doctest: +SKIP
    """

    def __init__(
        self, stream: str, log: Log, script: Iterable[Step], name: str = "scripted", *, clock: bool = True
    ) -> None:
        self.name = name
        self._stream = stream
        self._log = log
        self._steps = list(script)
        self._writes_clock = clock
        if [step.at for step in self._steps] != sorted(step.at for step in self._steps):
            raise ValueError("the steps of a script must be in order of their times")
        self._now = 0
        self._values: dict[ItemKey, float] = {}
        self._source: Source | None = None

    def play(self, until: int | None = None) -> None:
        """Play the steps up to and including `until` (default: all); a later call continues from there."""
        if self._source is None and self._now == 0:
            self._start()
        while self._steps and (until is None or self._steps[0].at <= until):
            step = self._steps.pop(0)
            self._pass(step.at)
            self._do(step)
            self._tell()
        if until is not None:
            self._pass(until)
            self._tell()

    def _start(self) -> None:
        self._source = Source(self._stream, self._log, self.name, clock=lambda: self._now, timeout=0.0)
        if self._values:
            self._source.set_many(list(self._values), list(self._values.values()))

    def _do(self, step: Step) -> None:
        if isinstance(step, Crash):
            self._source = None
        elif isinstance(step, Restart):
            self._start()
        elif step.value is None:
            del self._values[step.item]
            if self._source is not None:
                self._source.remove(step.item)
        else:
            self._values[step.item] = step.value
            if self._source is not None:
                self._source.set(step.item, step.value)

    def _pass(self, until: int) -> None:
        """Let time pass up to `until`, stopping wherever the source has something to do."""
        while self._now < until:
            due = self._source.due() if self._source is not None else None
            self._now = until if due is None else max(self._now + 1, min(due, until))
            if self._source is not None:
                self._source.advance()

    def _tell(self) -> None:
        if self._source is not None:
            self._source.flush()
        if self._writes_clock:
            # Twice: the next step may be days ahead, and a single clock row does not move time that far.
            for _ in range(2):
                self._log.append(updates_topic(self._stream), clock_batch(self._now))
