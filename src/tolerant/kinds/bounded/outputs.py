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
from tolerant.kinds.bounded.engine import Engine
from tolerant.pipeline.hosting import Output
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.transport import rows
from tolerant.transport.rows import ANSWERS, GRANT_BODY, compacted, current_body, grants_columns, pack, pack_parts
from tolerant.transport.topics import SEVERAL, answers_topic, current_topic, status_topic


def answer_outputs(said: Sequence[AnswerBatch], names: Sequence[str | None], withheld: frozenset[str]) -> list[Output]:
    """Packs answers for the topics of their queries, and the newest answer of each group as the current one.

    `names` are the coordinator's names of the query indices; unsettled answers of `withheld` queries are left out.
    """
    if not said:
        return []
    whole = AnswerBatch._make(np.concatenate(columns) for columns in zip(*said, strict=True))
    spoken = {query: query_and_group(str(names[query])) for query in np.unique(whole.query).tolist()}
    topics = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in spoken.values()))}
    topic_of = np.zeros(len(names), np.int64)
    topic_of[list(spoken)] = [topics[name] for name, _ in spoken.values()]
    order = np.lexsort((whole.at, topic_of[whole.query]))
    order = order[~_withheld(whole, order, topic_of, [topics[name] for name in topics if name in withheld])]
    table = _table(AnswerBatch._make(column[order] for column in whole), spoken)
    numbers, counts = np.unique(topic_of[whole.query][order], return_counts=True)
    texts = list(topics)
    outputs = [
        Output(answers_topic(texts[number]), payload)
        for number, payload in zip(numbers.tolist(), pack_parts(table, counts.cumsum().tolist()), strict=True)
    ]
    if len(order):
        outputs.append(Output(SEVERAL, pack(_current(table, whole.query[order]))))
    return outputs


def _withheld(said: AnswerBatch, order: Integers, topic_of: Integers, silent: list[int]) -> Flags:
    """Marks, in this order, the unsettled answers of queries that withhold them."""
    unsettled = (said.flags[order] & (STALE | SETTLING)) != 0
    return unsettled & np.isin(topic_of[said.query[order]], silent)


def _table(said: AnswerBatch, spoken: dict[int, tuple[str, str]]) -> pa.RecordBatch:
    """Converts answers to rows of ANSWERS."""
    places = {query: place for place, query in enumerate(spoken)}
    place = np.zeros(max(spoken) + 1, np.int32)
    place[list(places)] = list(places.values())
    indices = pa.array(place[said.query])
    nothing = (said.flags & NOTHING) > 0
    columns = [
        pa.array([name for name, _ in spoken.values()], pa.string()).take(indices),
        pa.array([group for _, group in spoken.values()], pa.string()).take(indices),
        pa.array(said.at, pa.int64()),
        *(_nullable(column, nothing) for column in (said.low, said.value, said.high)),
        pa.array((said.flags & STALE) > 0),
        pa.array((said.flags & SETTLING) > 0),
    ]
    return pa.record_batch(columns, schema=ANSWERS)


def _nullable(values: Floats, nothing: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=nothing | ~np.isfinite(values))


def _current(table: pa.RecordBatch, queries: Integers) -> pa.RecordBatch:
    """The last answer of each query index, for its compacted topic; `version` is its time."""
    _, back = np.unique(queries[::-1], return_index=True)
    last = table.take(pa.array(len(queries) - 1 - back)).to_pylist()
    columns = [
        [current_topic(row["query"]) for row in last],
        [row["group"] for row in last],
        [row["at"] for row in last],
        [current_body(row) for row in last],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, rows.SEVERAL, strict=True)]
    return pa.record_batch(arrays, schema=rows.SEVERAL)


def tombstone_current(query: str, groups: Sequence[str], at: int) -> Output:
    """Packs tombstones for the current answers of a dropped query."""
    return Output(current_topic(query), pack(compacted([(group, at, None) for group in groups])))


def grant_outputs(
    topic: str, decided: IssuedGrants, names: Sequence[str | None], shrink: float, forgotten: list[str], version: int
) -> list[Output]:
    """Packs grants for their compacted topic, and tombstones with `version` for those of removed items."""
    outputs = []
    alive = [index for index, item in enumerate(decided.item.tolist()) if names[item] is not None]
    back = {names[item] for item in decided.item[alive].tolist()}
    gone = [name for name in dict.fromkeys(forgotten) if name not in back]
    if gone:
        outputs.append(Output(topic, pack(compacted([(name, version, None) for name in gone]))))
    if alive:
        bodies = np.zeros(len(alive), GRANT_BODY)
        bodies["width"], bodies["since"] = decided.width[alive], decided.since[alive]
        bodies["shrink"] = np.where(decided.shrinks[alive], shrink, 0.0)
        bodies["confirm"], bodies["unit"] = decided.confirm[alive], decided.unit[alive]
        bodies["far"], bodies["leave"] = decided.suppress_side[alive], decided.suppress_beyond[alive]
        texts = [str(names[item]) for item in decided.item[alive].tolist()]
        outputs.append(Output(topic, pack(grants_columns(texts, decided.version[alive], bodies))))
    return outputs


def status(engine: Engine, stream: str, shard: int, watermark: int) -> Output:
    """Packs the status of a shard for `tolerant status` and `explain`: a summary, a table of items, a table of sums."""
    coordinator = engine.coordinator
    items = engine.items()
    owners = engine.roll.owner[items]
    sources = {
        name: {
            "heard": int(engine.sources.heard[index]),
            "epoch": int(engine.sources.epoch[index]),
            "items": int((owners == index).sum()),
            "stale": bool(engine.sources.silent[index]),
            "skew": int(engine.sources.skew[index]),
        }
        for index, name in enumerate(engine.sources.names)
    }
    summary = {
        "stream": stream,
        "shard": shard,
        "watermark": watermark,
        "epoch": coordinator.grant_log.epoch,
        "items": len(items),
        **engine.tally.numbers(),
        "late_sources": engine.tally.late_sources,
        "sources": sources,
        "queries": {name: _query_summary(engine, name) for name in engine.selects},
    }
    bodies = [
        (f"summary/{shard}", json.dumps(summary).encode()),
        (f"items/{shard}", pack(_item_table(engine))),
        (f"sums/{shard}", pack(_sum_table(engine))),
    ]
    return Output(status_topic(stream), pack(compacted([(key, watermark, body) for key, body in bodies])))


def _query_summary(engine: Engine, name: str) -> dict[str, object]:
    select = engine.selects[name]
    groups = query_statuses(
        engine.coordinator.membership, [instance_name(name, group) for group in engine.instances[name]]
    )
    return {
        "within": select.within,
        "fn": select.fn,
        "groups": len(groups),
        "items": sum(one.items for one in groups),
        "settling": sum(one.settling for one in groups),
        "stale": sum(one.stale for one in groups),
        "late_us": engine.tally.lost.get(name, 0),
    }


def _item_table(engine: Engine) -> pa.RecordBatch:
    items = engine.items()
    names = engine.coordinator.membership.item_names
    keys = pa.array([str(names[item]) for item in items.tolist()], pa.string())
    return pa.record_batch({"key": keys, **_columns(engine, items, engine.roll.owner[items])})


def _sum_table(engine: Engine) -> pa.RecordBatch:
    """Lists the sums that sources send in place of items, with the query and the items of each."""
    formed, names = engine.forms.formed(), engine.coordinator.membership.item_names
    queries = [query_and_group(part.query) for _, part in formed]
    items = [[str(names[item]) for item in part.items.tolist()] for _, part in formed]
    sums = np.array([part.sum for _, part in formed], np.int64)
    owners = np.array([source for source, _ in formed], np.int64)
    return pa.record_batch(
        {
            "query": pa.array([query for query, _ in queries], pa.string()),
            "group": pa.array([group for _, group in queries], pa.string()),
            "items": pa.array(items, pa.list_(pa.string())),
            **_columns(engine, sums, owners),
        }
    )


def _columns(engine: Engine, items: Integers, owners: Integers) -> dict[str, pa.Array]:
    view = engine.coordinator.item_view(items)
    return {
        "width": pa.array(view.width),
        "believed": pa.array(view.believed),
        "value": pa.array(view.centre),
        "updates": pa.array(view.total),
        "updates_per_second": pa.array(view.pace / engine.seconds_per_period),
        "burden": pa.array(view.burden),
        "source": pa.array([engine.sources.names[owner] for owner in owners.tolist()], pa.string()),
        "stale": pa.array(view.stale),
        "elsewhere": pa.FixedSizeListArray.from_arrays(pa.array(view.elsewhere.ravel()), len(FACTORS)),
    }
