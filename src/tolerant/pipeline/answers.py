"""Publishes the answers of a shard: those that changed, the current one of every group, tombstones of dropped ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from tolerant.kernels.snapshots import State
from tolerant.pipeline.hosting import Output
from tolerant.sql.membership import query_and_group
from tolerant.transport import rows
from tolerant.transport.rows import compacted, current_body, pack
from tolerant.transport.topics import SEVERAL, answers_topic, current_topic


class PublishedAnswer(NamedTuple):
    """The answer of a query's group in the columns of `ANSWERS`; an end that is not known is null."""

    low: float | None
    value: float | None
    high: float | None
    stale: bool
    settling: bool


class AnswerColumns(Protocol):
    """A named tuple of the columns of an answer, without query, group and time."""

    @property
    def stale(self) -> bool:
        """Whether nothing is guaranteed for now."""
        ...

    @property
    def settling(self) -> bool:
        """Whether the tolerance is not reached yet."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


A = TypeVar("A", bound=AnswerColumns)


class AnswerPublisher(Generic[A]):
    """Collects the groups whose answers may have changed and publishes the answers that did.

    A group is named as `instance_name` names it. `make` makes an answer of its columns, which are those of `schema`.
    With `last_of_moment`, of several answers of a group for one event time only the last is published.
    """

    def __init__(self, make: Callable[..., A], schema: pa.Schema, *, last_of_moment: bool = False) -> None:
        self._make, self._schema, self._last_of_moment = make, schema, last_of_moment
        self.last_answers: dict[str, A] = {}
        """By group; also those that were withheld."""
        self._touched: set[str] = set()
        self._changed: dict[tuple[str, int, int], A] = {}  # by group, time and number
        self._outputs: list[Output] = []

    def touch(self, groups: Iterable[str]) -> None:
        """Note that the answers of these groups may have changed."""
        self._touched.update(groups)

    @property
    def touched(self) -> list[str]:
        """The groups whose answers may have changed, in order."""
        return sorted(self._touched)

    def publish(self, answers: Mapping[str, A], at: int, withheld: frozenset[str]) -> None:
        """Publish the answers that changed as of event time `at`, of all groups that are `touched`, which then none is.

        Unsettled answers of `withheld` queries are left out.
        """
        for group, answer in answers.items():
            if answer == self.last_answers.get(group):
                continue
            self.last_answers[group] = answer
            key = (group, at, 0 if self._last_of_moment else len(self._changed))
            self._changed.pop(key, None)
            if not ((answer.stale or answer.settling) and query_and_group(group)[0] in withheld):
                self._changed[key] = answer
        self._touched.clear()

    def drop(self, groups: Iterable[str], at: int) -> None:
        """Forget groups; tombstones of their current answers follow the answers before."""
        for group in groups:
            self._pack()
            self.last_answers.pop(group, None)
            self._touched.discard(group)
            query, key = query_and_group(group)
            self._outputs.append(tombstones(query, [key], at))

    def drain(self) -> list[Output]:
        """Return the outputs since the last call."""
        self._pack()
        outputs, self._outputs = self._outputs, []
        return outputs

    def _pack(self) -> None:
        changed, self._changed = self._changed, {}
        by_query: dict[str, list[dict[str, Any]]] = {}
        newest: dict[str, dict[str, Any]] = {}
        for (name, at, _), answer in changed.items():
            query, group = query_and_group(name)
            row = {"query": query, "group": group, "at": at, **answer._asdict()}
            by_query.setdefault(query, []).append(row)
            newest[name] = row
        self._outputs += [
            Output(answers_topic(query), pack(pa.RecordBatch.from_pylist(listed, self._schema)))
            for query, listed in by_query.items()
        ]
        if newest:
            self._outputs.append(current_answers(list(newest.values())))

    def state(self) -> State:
        """Return the last answers and what may have changed, for a snapshot; after `drain`."""
        return State(last_answers=self.last_answers, touched=self.touched)

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        last_answers, touched = state.exactly("last_answers", "touched")
        self.last_answers = {group: self._make(*answer) for group, answer in last_answers.items()}
        self._touched = set(touched)


def current_answers(answers: Sequence[dict[str, Any]]) -> Output:
    """Return answers, one per group, as the current ones, each for its query's compacted topic; version: its time."""
    columns = [
        [current_topic(answer["query"]) for answer in answers],
        [answer["group"] for answer in answers],
        [answer["at"] for answer in answers],
        [current_body(answer) for answer in answers],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, rows.SEVERAL, strict=True)]
    return Output(SEVERAL, pack(pa.record_batch(arrays, schema=rows.SEVERAL)))


def tombstones(query: str, groups: Sequence[str], at: int) -> Output:
    """Return tombstones of the current answers of a query's groups."""
    return Output(current_topic(query), pack(compacted([(group, at, None) for group in groups])))
