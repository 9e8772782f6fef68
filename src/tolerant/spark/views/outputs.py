"""Packs what a pipeline of views writes for its readers, and reads it back from the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.pipeline.hosting import Output
from tolerant.spark.views.checkpoint import read_published
from tolerant.spark.views.live import LiveView, group_body
from tolerant.spark.views.maintained import Pushed
from tolerant.spark.views.promise_keeping import PromiseStatus
from tolerant.sql import CreateQuery, Drop, encode
from tolerant.sql.pipeline_inputs import Views
from tolerant.sql.sql_text import trigger_text
from tolerant.transport import PipelineLog
from tolerant.transport.records import records_of
from tolerant.transport.rows import REPLIES, STATEMENTS, compacted, pack
from tolerant.transport.topics import (
    QUERIES,
    REPLIES_TOPIC,
    answers_topic,
    current_topic,
    pushes_topic,
    rows_topic,
    status_topic,
)
from tolerant.transport.views import HEADER, NOTICE, PUSHES, changed_rows, group_text, joined
from tolerant.views.view_groups import Key

Reply = dict[str, object]


@dataclass(frozen=True)
class Served:
    """What a push was for: each of `requests` took the seconds at its place in `took`.

    `worked`: seconds of the push and its commit; `predicted`: those that its costs said.
    """

    kind: str
    at: int
    requests: Sequence[str]
    took: Sequence[float]
    worked: float
    predicted: float


class ViewOutputs:
    """The outputs of the views over some tables; `number` is the version of the round that writes them."""

    def __init__(self, log: PipelineLog, views: Views) -> None:
        self._log = log
        self.status = status_topic(views.name)
        self._groups = rows_topic(views.name)

    # -- pushes ----------------------------------------------------------------------------------------------------

    def content(self, live: LiveView, done: Pushed, kind: str, at: int, number: int) -> list[Output]:
        """Packs the groups that a push touched and, if somebody waits for it, the current rows of the view."""
        held = live.view.groups.by_key
        bodies = [json.dumps(group_body(held[key])).encode() if key in held else None for key in done.touched]
        names = [f"{live.name}/{group_text(key)}" for key in done.touched]
        groups = [(name, number, body) for name, body in zip(names, bodies, strict=True)]
        outputs = [Output(self._groups, pack(compacted(groups)))] if groups else []
        return outputs if kind == "push" else [*outputs, self._current_rows(live, at, kind == NOTICE, number)]

    def _current_rows(self, live: LiveView, at: int, notice: bool, number: int) -> Output:
        """Packs the current rows of a view, and keeps its changes for `changes`."""
        gone, come, groups = live.news()
        if gone or come or notice:
            live.news_said.append(changed_rows(live.columns, gone, come, at, number, notice))
        header = {"columns": live.columns, "at": at, "step": number}
        rows = [(group_text(key), number, json.dumps(new).encode() if new else None) for key, new in groups.items()]
        rows.append((HEADER, number, json.dumps(header).encode()))
        return Output(current_topic(live.name), pack(compacted(rows)))

    def push_rows(self, live: LiveView, done: Pushed, served: Served) -> Output:
        """Packs a row for each request that a push served."""
        row = {
            "kind": served.kind, "at": served.at, "tables": list(done.rows), "rows": list(done.rows.values()),
            "seconds": [done.seconds[table] for table in done.rows], "predicted": served.predicted,
            "within": live.within, "recomputed": done.recomputed,
        }  # fmt: skip
        rows = [
            {**row, "request": request, "took": seconds, "waited": seconds - served.worked}
            for request, seconds in zip(served.requests, served.took, strict=True)
        ]
        return Output(pushes_topic(live.name), pack(pa.RecordBatch.from_pylist(rows, PUSHES)))

    def changes(self, live: LiveView) -> list[Output]:
        """Packs the changes of a view as one entry: listeners recognise new rows by the number of the round."""
        batches, live.news_said = live.news_said, []
        return [Output(answers_topic(live.name), pack(joined(batches)))] if batches else []

    def view_status(self, live: LiveView, promise: PromiseStatus, number: int) -> Output:
        """Packs the status of a view for `tolerant status` and `tolerant explain`."""
        body = {
            "view": live.name,
            "within": live.within,
            "limit": promise.limit,
            "working_limit": live.scheduler.working_limit,
            "work": live.predicted,
            "floor": live.costs.promise.floor,
            "needs": promise.needs,
            "shared_by": promise.shared_by,
            "piece": promise.piece,
            "groups": len(live.view.groups.by_key),
            "tables": live.costs.by_table(),
            "when": trigger_text(live.when) if live.when else None,
            "holds": live.watch.holds if live.watch else None,
            **live.figures,
        }
        return Output(self.status, pack(compacted([(f"view/{live.name}", number, json.dumps(body).encode())])))

    # -- statements ------------------------------------------------------------------------------------------------

    def replies(self, replies: Sequence[Reply]) -> list[Output]:
        """Packs replies to statements."""
        return [Output(REPLIES_TOPIC, pack(pa.RecordBatch.from_pylist(replies, REPLIES)))] if replies else []

    def refusal(self, query: CreateQuery, reason: str, number: int) -> list[Output]:
        """Packs the statement that drops a view which cannot be maintained, and why."""
        drop = Drop("query", query.name)
        row = {"kind": drop.kind, "key": drop.name, "request": "", "text": f"-- {reason}", "body": encode(drop)}
        body = json.dumps({"view": query.name, "refused": reason}).encode()
        return [
            Output(QUERIES, pack(pa.RecordBatch.from_pylist([row], STATEMENTS))),
            Output(self.status, pack(compacted([(f"view/{query.name}", number, body)]))),
        ]

    def tombstones(self, view: str, number: int) -> list[Output]:
        """Packs the end of the groups and the rows that the log has of a view."""
        published = [key for key, _, body in records_of(self._log, current_topic(view)) if body is not None]
        stored = self.stored_groups(view)
        outputs = [self._without_groups(view, stored, number)] if stored else []
        return [*outputs, self._without_rows(view, published, number)] if published else outputs

    def no_status(self, view: str, number: int) -> Output:
        """Packs the end of the status of a view."""
        return Output(self.status, pack(compacted([(f"view/{view}", number, None)])))

    def remove_foreign(self, live: LiveView, number: int) -> list[Output]:
        """Packs the end of groups that are not this view's: of another checkpoint, of an earlier view of this name, or
        forged. The view knows from now on which of its rows have been published.
        """
        own = {group_text(key) for key in live.view.groups.by_key}
        foreign = [text for text in self.stored_groups(live.name) if text not in own]
        live.said, unreadable = self.published_rows(live)
        strays = [text for text in unreadable if text not in own]
        return [self._without_groups(live.name, foreign, number), self._without_rows(live.name, strays, number)]

    def _without_groups(self, view: str, texts: Iterable[str], number: int) -> Output:
        return Output(self._groups, pack(compacted([(f"{view}/{text}", number, None) for text in texts])))

    def _without_rows(self, view: str, texts: Iterable[str], number: int) -> Output:
        return Output(current_topic(view), pack(compacted([(text, number, None) for text in texts])))

    # -- what the log has ------------------------------------------------------------------------------------------

    def stored_groups(self, view: str) -> dict[str, bytes]:
        """The groups of a view in the log, by the text of their keys."""
        prefix = f"{view}/"
        records = records_of(self._log, self._groups)
        return {
            key.removeprefix(prefix): body for key, _, body in records if key.startswith(prefix) and body is not None
        }

    def published_rows(self, live: LiveView) -> tuple[dict[Key, list[list[Any]]], list[str]]:
        """The published rows of a view, by group, and the keys of groups that cannot be read."""
        records = records_of(self._log, current_topic(live.name))
        stored = {key: body for key, _, body in records if key != HEADER and body is not None}
        return read_published(stored, live.columns, len(live.view.plan.keys))
