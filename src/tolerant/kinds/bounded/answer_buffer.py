"""The answers of a shard that have not been written yet, each with the name of its query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.coordinator import Coordinator
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import STALE, AnswerBatch
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.streams import is_sum

NamedAnswers = tuple[list[AnswerBatch], list[str | None]]
"""Answers in order, and the names of the query indices that they use."""


def hidden_queries(membership: Membership) -> NDArray[np.bool_]:
    """Marks the query indices that belong to no user: those of sums, and unused ones."""
    return np.array([name is None or is_sum(name) for name in membership.query_names()], np.bool_)


class AnswerBuffer(Restorable):
    """Answers from the coordinator: those of the current operation, then those of finished operations.

    `incomplete`: whether items were refused because of the stream's limits. The answers do not include them, and are
    stale.
    """

    FIELDS = Fields("incomplete")

    def __init__(self, coordinator: Coordinator) -> None:
        self.incomplete = False
        self._coordinator = coordinator
        self._current: list[AnswerBatch] = []
        self._finished: list[AnswerBatch] = []
        self._named: list[NamedAnswers] = []

    def collect(self) -> None:
        """Drains the coordinator's answers, without those of hidden queries. Must be called before a hidden query is
        added or dropped.
        """
        batches = self._coordinator.emitter.drain_answers()
        if not batches:
            return
        answers = AnswerBatch._make(np.concatenate(columns) for columns in zip(*batches, strict=True))
        membership = self._coordinator.membership
        if membership.sums().any():
            shown = ~hidden_queries(membership)[answers.query]
            answers = AnswerBatch._make(column[shown] for column in answers)
        if self.incomplete:
            answers = answers._replace(flags=answers.flags | STALE)
        if len(answers.query):
            self._current.append(answers)

    def finish(self) -> None:
        """Ends an operation: of several answers of a query with the same `at`, only the last is kept."""
        self.collect()
        if not self._current:
            return
        answers = AnswerBatch._make(np.concatenate(columns) for columns in zip(*self._current, strict=True))
        self._current = []
        order = np.lexsort((answers.at, answers.query))
        repeated = np.zeros(len(order), np.bool_)
        query, at = answers.query[order], answers.at[order]
        repeated[order[:-1]] = (query[1:] == query[:-1]) & (at[1:] == at[:-1])
        self._finished.append(AnswerBatch._make(column[~repeated] for column in answers))

    def attach_names(self) -> None:
        """Attaches query names to the answers so far. Must be called before a query is dropped: its index may belong to
        another query afterwards.
        """
        if self._finished:
            self._named.append((self._finished, self._coordinator.membership.query_names()))
            self._finished = []

    @property
    def parts(self) -> int:
        """Number of parts that `take` would return, without the answers since a query was last dropped."""
        return len(self._named)

    def take(self) -> list[NamedAnswers]:
        """Returns the answers since the last call, in order, in parts whose indices have the same names."""
        self.attach_names()
        parts, self._named = self._named, []
        return parts
