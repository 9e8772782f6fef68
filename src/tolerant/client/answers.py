"""Follows the answers of a query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tolerant.queries import Answer
from tolerant.transport import Log, open_log, rows
from tolerant.transport.log import START, Entry

POLL = 0.05
"""Seconds between two looks at the log while nothing new is there."""


@dataclass(frozen=True)
class Change:
    """An answer, and the position to resume from once everything up to it has been dealt with."""

    answer: Answer
    position: int


class Client:
    """A reader of answers. `log` is a log or its URI; one that was opened here is closed by `close`.

    ```python
    with Client("sqlite:///tolerant.db") as client:
        for change in client.answers("inbound"):
            print(change.answer.value)
    ```
    """

    def __init__(self, log: Log | str) -> None:
        self._own = isinstance(log, str)
        self.log: Log = open_log(log) if isinstance(log, str) else log

    def current(self, query: str) -> list[Answer]:
        """The newest answer of each group, in the order of the groups."""
        answers = [answer for entry in self.log.read(f"current.{query}") for answer in _bodies(entry)]
        return sorted(answers, key=lambda answer: answer.group)

    def answers(
        self, query: str, position: int | None = None, *, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Change]:
        """The current answer of every group, then each change, for ever or until `stop()`.

        With a `position` (START: the oldest that the log still holds) what stands after it, instead of the current
        ones. A group's answers come in the order of `at` and none comes twice, also when a pipeline that started
        anew has said old ones again. The trap: several changes can share one position (they were published
        together); a reader that keeps positions should keep one only when the next has begun.
        """
        seen: dict[str, Answer] = {}
        if position is None:
            # The end first: whatever is published between the two reads is then seen twice, and dropped once.
            position = self.log.end()
            for answer in self.current(query):
                seen[answer.group] = answer
                yield Change(answer, position)
        topic = f"answers.{query}"
        while not stop():
            entries = self.log.read(topic, position, limit=100)
            for entry in entries:
                for answer in _answers(entry.payload):
                    if _newer(answer, seen.get(answer.group)):
                        seen[answer.group] = answer
                        yield Change(answer, entry.position)
                position = entry.position
            if not entries:
                time.sleep(POLL)

    def history(self, query: str) -> list[Answer]:
        """All answers that the log still holds, as `answers` would give them from START; does not wait for more."""
        end = self.log.end()
        seen: dict[str, Answer] = {}
        kept = []
        for entry in self.log.read(f"answers.{query}", START):
            if entry.position > end:
                break
            for answer in _answers(entry.payload):
                if _newer(answer, seen.get(answer.group)):
                    seen[answer.group] = answer
                    kept.append(answer)
        return kept

    def close(self) -> None:
        """Let go of the log, if it was opened here."""
        if self._own:
            self.log.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _newer(answer: Answer, last: Answer | None) -> bool:
    return last is None or answer.at > last.at or (answer.at == last.at and answer != last)


def _bodies(entry: Entry) -> Iterator[Answer]:
    for body in rows.unpack(entry.payload).column("body").to_pylist():
        if body is not None:
            yield Answer(**rows.read_current(body))


def _answers(payload: bytes) -> list[Answer]:
    return [Answer(**row) for row in rows.unpack(payload).to_pylist()]
