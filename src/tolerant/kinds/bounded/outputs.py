"""Packs the outputs of a shard of bounded queries for their topics: answers, grants, dead letters, replies and
status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tolerant.filters.state import NOTHING, SETTLING, STALE, AnswerBatch, Flags, Floats, Integers, IssuedGrants
from tolerant.filters.status_view import FACTORS, query_statuses
from tolerant.kinds.bounded.answer_buffer import TakenAnswers
from tolerant.kinds.bounded.open_queries import OpenQueries
from tolerant.kinds.bounded.shard_state import ShardState
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.pipeline.answers import current_answers
from tolerant.pipeline.hosting import Output
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.streams import SECOND
from tolerant.transport.rows import ANSWERS, GRANT_BODY, compacted, grants_columns, pack, pack_parts
from tolerant.transport.topics import answers_topic, status_topic


def answer_outputs(taken: TakenAnswers, tombstones: list[Output], withheld: frozenset[str]) -> list[Output]:
    """Packs answers for the topics of their queries, and the newest answer of each group as the current one, which
    follows the `tombstones` of dropped queries: a new query may have the name of one of them.

    Unsettled answers of `withheld` queries are left out.
    """
    answers, names, dropped = taken
    if not len(answers.query):
        return tombstones
    targets = {query: query_and_group(names[query]) for query in np.unique(answers.query).tolist()}
    topics = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in targets.values()))}
    topic_of = np.zeros(len(names), np.int64)
    topic_of[list(targets)] = [topics[name] for name, _ in targets.values()]
    order = np.lexsort((answers.at, topic_of[answers.query]))
    order = order[~_withheld(answers, order, topic_of, [topics[name] for name in topics if name in withheld])]
    queries = answers.query[order]
    table = _table(AnswerBatch._make(column[order] for column in answers), targets)
    numbers, counts = np.unique(topic_of[queries], return_counts=True)
    texts = list(topics)
    outputs = [
        Output(answers_topic(texts[number]), payload)
        for number, payload in zip(numbers.tolist(), pack_parts(table, counts.cumsum().tolist()), strict=True)
    ]
    current = np.flatnonzero(~dropped[queries])
    newest = [_current(table.take(pa.array(current)), queries[current])] if len(current) else []
    return [*outputs, *tombstones, *newest]


def _withheld(answers: AnswerBatch, order: Integers, topic_of: Integers, withholding: list[int]) -> Flags:
    """Marks, in this order, the unsettled answers of queries that withhold them."""
    unsettled = (answers.flags[order] & (STALE | SETTLING)) != 0
    return unsettled & np.isin(topic_of[answers.query[order]], withholding)


def _table(answers: AnswerBatch, targets: dict[int, tuple[str, str]]) -> pa.RecordBatch:
    """Converts answers to rows of ANSWERS."""
    places = {query: place for place, query in enumerate(targets)}
    place = np.zeros(max(targets) + 1, np.int32)
    place[list(places)] = list(places.values())
    indices = pa.array(place[answers.query])
    nothing = (answers.flags & NOTHING) > 0
    columns = [
        pa.array([name for name, _ in targets.values()], pa.string()).take(indices),
        pa.array([group for _, group in targets.values()], pa.string()).take(indices),
        pa.array(answers.at, pa.int64()),
        *(_nullable(column, nothing) for column in (answers.low, answers.value, answers.high)),
        pa.array((answers.flags & STALE) > 0),
        pa.array((answers.flags & SETTLING) > 0),
    ]
    return pa.record_batch(columns, schema=ANSWERS)


def _nullable(values: Floats, nothing: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=nothing | ~np.isfinite(values))


def _current(table: pa.RecordBatch, queries: Integers) -> Output:
    """Packs the last answer of each query index as the current one."""
    _, back = np.unique(queries[::-1], return_index=True)
    return current_answers(table.take(pa.array(len(queries) - 1 - back)).to_pylist())


def grant_outputs(
    topic: str, issued: IssuedGrants, names: Sequence[str | None], shrink: float, removed: list[str], version: int
) -> list[Output]:
    """Packs grants for their compacted topic, and tombstones with `version` for those of removed items."""
    outputs = []
    alive = [index for index, item in enumerate(issued.item.tolist()) if names[item] is not None]
    back = {names[item] for item in issued.item[alive].tolist()}
    gone = [name for name in dict.fromkeys(removed) if name not in back]
    if gone:
        outputs.append(Output(topic, pack(compacted([(name, version, None) for name in gone]))))
    if alive:
        bodies = np.zeros(len(alive), GRANT_BODY)
        bodies["width"], bodies["since"] = issued.width[alive], issued.since[alive]
        bodies["shrink"] = np.where(issued.shrinks[alive], shrink, 0.0)
        bodies["confirm"], bodies["unit"] = issued.confirm[alive], issued.unit[alive]
        bodies["far"], bodies["leave"] = issued.suppress_side[alive], issued.suppress_beyond[alive]
        texts = [str(names[item]) for item in issued.item[alive].tolist()]
        outputs.append(Output(topic, pack(grants_columns(texts, issued.version[alive], bodies))))
    return outputs


def status(state: ShardState, queries: OpenQueries, sums: SumSubstitution, shard: int, watermark: int) -> Output:
    """Packs the status of a shard for `tolerant status` and `explain`: a summary, a table of items, a table of sums."""
    present = state.registry.items()
    items = present[~state.coordinator.membership.sums()[present]]
    summary = {
        "stream": state.stream.name,
        "shard": shard,
        "watermark": watermark,
        "epoch": state.coordinator.grant_log.epoch,
        "items": len(items),
        **state.counters.numbers(),
        "late_sources": state.counters.late_sources,
        "sources": _source_summaries(state, items),
        "queries": {name: _query_summary(state, queries, name) for name in queries.selects},
    }
    bodies = [
        (f"summary/{shard}", json.dumps(summary).encode()),
        (f"items/{shard}", pack(_item_table(state, items))),
        (f"sums/{shard}", pack(_sum_table(state, sums))),
    ]
    return Output(status_topic(state.stream.name), pack(compacted([(key, watermark, body) for key, body in bodies])))


def _source_summaries(state: ShardState, items: Integers) -> dict[str, dict[str, object]]:
    sources, owners = state.sources, state.registry.owner[items]
    return {
        name: {
            "heard": int(sources.heard[index]),
            "epoch": int(sources.epoch[index]),
            "items": int((owners == index).sum()),
            "stale": bool(sources.silent[index]),
            "skew": int(sources.skew[index]),
        }
        for index, name in enumerate(sources.names)
    }


def _query_summary(state: ShardState, queries: OpenQueries, name: str) -> dict[str, object]:
    select = queries.selects[name]
    instances = [instance_name(name, group) for group in queries.groups[name]]
    groups = query_statuses(state.coordinator.membership, instances)
    return {
        "within": select.within,
        "fn": select.fn,
        "groups": len(groups),
        "items": sum(group.items for group in groups),
        "settling": sum(group.settling for group in groups),
        "stale": sum(group.stale for group in groups),
        "late_us": state.counters.lost.get(name, 0),
    }


def _item_table(state: ShardState, items: Integers) -> pa.RecordBatch:
    keys = pa.array(state.keys(items), pa.string())
    return pa.record_batch({"key": keys, **_columns(state, items, state.registry.owner[items])})


def _sum_table(state: ShardState, sums: SumSubstitution) -> pa.RecordBatch:
    """Lists the sums that sources send in place of items, with the query and the items of each."""
    formed = sums.formed()
    queries = [query_and_group(part.query) for _, part in formed]
    indices = np.array([part.sum for _, part in formed], np.int64)
    owners = np.array([source for source, _ in formed], np.int64)
    return pa.record_batch(
        {
            "query": pa.array([query for query, _ in queries], pa.string()),
            "group": pa.array([group for _, group in queries], pa.string()),
            "items": pa.array([state.keys(part.items) for _, part in formed], pa.list_(pa.string())),
            **_columns(state, indices, owners),
        }
    )


def _columns(state: ShardState, items: Integers, owners: Integers) -> dict[str, pa.Array]:
    view = state.coordinator.item_view(items)
    return {
        "width": pa.array(view.width),
        "believed": pa.array(view.believed),
        "value": pa.array(view.centre),
        "updates": pa.array(view.total),
        "updates_per_second": pa.array(view.pace / (state.stream.options.boundary / SECOND)),
        "burden": pa.array(view.burden),
        "source": pa.array([state.sources.names[owner] for owner in owners.tolist()], pa.string()),
        "stale": pa.array(view.stale),
        "elsewhere": pa.FixedSizeListArray.from_arrays(pa.array(view.elsewhere.ravel()), len(FACTORS)),
    }
