"""Reads answers of aggregates from `answers.<query>` and `current.<query>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tolerant.queries import Answer
from tolerant.transport import Log, rows
from tolerant.transport.feeds import Extracted, Listener
from tolerant.transport.positions import WHOLE, Position
from tolerant.transport.records import OUTPUT_LIMITS, records_of, skipping
from tolerant.transport.topics import answers_topic, current_topic


@dataclass(frozen=True)
class Change:
    """An answer, and the position to resume from once it and everything before it has been processed; None before the
    last of the current answers: they belong together.
    """

    answer: Answer
    position: Position | None


class AnswerListener(Listener):
    """Listens to all groups of an aggregate: the answers of each in the order of `at`, and none twice."""

    def __init__(self, position: Position, newest: dict[str, Answer]) -> None:
        super().__init__(position)
        self._newest = newest

    def newest(self) -> list[Answer]:
        """Return the newest answer of each group, in the order of the groups."""
        return [answer for _, answer in sorted(self._newest.items())]

    def is_news(self, extracted: Extracted) -> bool:
        """Return whether a group's answer is newer than the last, or a different one of the same time."""
        answer: Answer = extracted.content
        last = self._newest.get(answer.group)
        if last is not None and not (answer.at > last.at or (answer.at == last.at and answer != last)):
            return False
        self._newest[answer.group] = answer
        return True


class AnswerExtractor:
    """Extracts the answers of a query, each for all its listeners."""

    def __init__(self, query: str) -> None:
        self.topic = answers_topic(query)

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield the answers of a batch, for each listener."""
        for row, record in enumerate(batch.to_pylist()):
            answer = Answer(**record)
            for listener in list(listeners.values()):
                yield listener, Extracted(row, answer.at, answer)


def current_answers(log: Log, query: str) -> list[Answer]:
    """Return the newest answer of each group, in the order of the groups."""
    answers = []
    for group, _, body in records_of(log, current_topic(query)):
        with skipping(f"the current answer of {query}", group):
            answers += [] if body is None else [Answer(**rows.read_current(body))]
    return sorted(answers, key=lambda answer: answer.group)


def newest_until(log: Log, query: str, position: Position) -> dict[str, Answer]:
    """Return group → the newest answer that a reader at this position has processed, as far as the log has them."""
    newest: dict[str, Answer] = {}
    for entry in log.read(answers_topic(query)):
        if entry.position > position.entry:
            break
        processed = WHOLE if entry.position < position.entry else position.rows
        with skipping(f"an entry of answers.{query}"):
            for record in rows.unpack(entry.payload, OUTPUT_LIMITS).to_pylist()[:processed]:
                answer = Answer(**record)
                if answer.group not in newest or answer.at >= newest[answer.group].at:
                    newest[answer.group] = answer
    return newest
