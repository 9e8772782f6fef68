"""Answers of aggregates: how they are read from `answers.<query>` and `current.<query>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tolerant.client.feeds import Found, Listener
from tolerant.client.positions import WHOLE, Position
from tolerant.queries import Answer
from tolerant.transport import Log, rows
from tolerant.transport.records import OUTPUT_LIMITS, records_of, skipping


@dataclass(frozen=True)
class Change:
    """An answer, and the position to resume from once it and everything before has been dealt with; None before the
    last of the current answers: they are one.
    """

    answer: Answer
    position: Position | None


class AnswerListener(Listener):
    """Listens to all groups of an aggregate: of each its answers in the order of `at`, and none twice."""

    def __init__(self, position: Position, seen: dict[str, Answer]) -> None:
        super().__init__(position)
        self._seen = seen

    def newest(self) -> list[Answer]:
        """The newest answer of each group, in the order of the groups."""
        return [answer for _, answer in sorted(self._seen.items())]

    def is_news(self, found: Found) -> bool:
        """Whether a group's answer is newer than the last, or another one of the same time."""
        answer: Answer = found.what
        last = self._seen.get(answer.group)
        if last is not None and not (answer.at > last.at or (answer.at == last.at and answer != last)):
            return False
        self._seen[answer.group] = answer
        return True


class AnswerExtractor:
    """Every answer is for everyone who listens to the query."""

    def __init__(self, query: str) -> None:
        self.topic = f"answers.{query}"

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """The answers of a batch, for each listener."""
        for row, record in enumerate(batch.to_pylist()):
            answer = Answer(**record)
            for listener in list(listeners.values()):
                yield listener, Found(row, answer.at, answer)


def current_answers(log: Log, query: str) -> list[Answer]:
    """The newest answer of each group, in the order of the groups."""
    found = []
    for group, _, body in records_of(log, f"current.{query}"):
        with skipping(f"the current answer of {query}", group):
            found += [] if body is None else [Answer(**rows.read_current(body))]
    return sorted(found, key=lambda answer: answer.group)


def newest_until(log: Log, query: str, position: Position) -> dict[str, Answer]:
    """Group → its newest answer of those that a reader at this position has dealt with, as far as the log has them."""
    seen: dict[str, Answer] = {}
    for entry in log.read(f"answers.{query}"):
        if entry.position > position.entry:
            break
        dealt_with = WHOLE if entry.position < position.entry else position.rows
        with skipping(f"an entry of answers.{query}"):
            for record in rows.unpack(entry.payload, OUTPUT_LIMITS).to_pylist()[:dealt_with]:
                answer = Answer(**record)
                if answer.group not in seen or answer.at >= seen[answer.group].at:
                    seen[answer.group] = answer
    return seen
