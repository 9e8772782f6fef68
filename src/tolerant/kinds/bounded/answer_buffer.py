"""The answers of a shard that have not been written yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.bounds import empty_batch
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import STALE, AnswerBatch, Flags
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.streams import is_sum


def hidden_queries(membership: Membership) -> Flags:
    """Marks the query indices that belong to no user: those of sums, and unused ones."""
    return np.array([name is None or is_sum(name) for name in membership.query_names()], np.bool_)


class TakenAnswers(NamedTuple):
    """Answers in order. `answers.query` indexes the other fields: the name of each query, and whether it has been
    dropped since.
    """

    answers: AnswerBatch
    names: list[str]
    dropped: Flags


class AnswerBuffer(Restorable):
    """The coordinator's answers, in order, by query id: an index may belong to another query before they are taken.

    `incomplete`: whether items were refused because of the stream's limits. The answers do not include them, and are
    stale.
    """

    FIELDS = Fields("incomplete")

    def __init__(self, coordinator: Coordinator) -> None:
        self.incomplete = False
        self._coordinator = coordinator
        self._operations: list[AnswerBatch] = []
        self._dropped: dict[int, str] = {}  # names of the queries dropped since answers were last taken, by their ids

    def finish(self) -> None:
        """Ends an operation: of several answers of a query with the same `at`, only the last is kept. The indices of
        queries that it has dropped are free from here on.
        """
        membership = self._coordinator.membership
        batches = self._coordinator.emitter.drain_answers()
        if batches:
            answers = _last_of_each_time(_joined(batches))
            if self.incomplete:
                answers = answers._replace(flags=answers.flags | STALE)
            self._operations.append(answers._replace(query=membership.query_ids[answers.query]))
        self._dropped |= membership.release_queries()

    def take(self) -> TakenAnswers:
        """Returns the answers of users' queries since the last call."""
        operations, self._operations = self._operations, []
        dropped, self._dropped = self._dropped, {}
        names = dict(sorted((dropped | self._coordinator.membership.names_by_id()).items()))
        ids = np.array(list(names), np.int64)
        answers = _joined([empty_batch(0), *operations])
        answers = answers._replace(query=np.searchsorted(ids, answers.query))
        shown = np.array([not is_sum(name) for name in names.values()], np.bool_)[answers.query]
        return TakenAnswers(
            AnswerBatch._make(column[shown] for column in answers),
            list(names.values()),
            np.isin(ids, list(dropped)),
        )


def _joined(batches: list[AnswerBatch]) -> AnswerBatch:
    return AnswerBatch._make(np.concatenate(columns) for columns in zip(*batches, strict=True))


def _last_of_each_time(answers: AnswerBatch) -> AnswerBatch:
    order = np.lexsort((answers.at, answers.query))
    query, at = answers.query[order], answers.at[order]
    repeated = np.zeros(len(order), np.bool_)
    repeated[order[:-1]] = (query[1:] == query[:-1]) & (at[1:] == at[:-1])
    return AnswerBatch._make(column[~repeated] for column in answers)
