"""What a shard of bounded queries says: answers, grants, dead letters, replies and its status, packed for their
topics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tolerant.filters.state import NOTHING, SETTLING, STALE, Decided, Flags, Floats, Integers, Said
from tolerant.filters.view import FACTORS
from tolerant.spark.hosting import Output
from tolerant.spark.kinds.engine import Engine
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.transport import rows
from tolerant.transport.log import SEVERAL
from tolerant.transport.rows import ANSWERS, GRANT_BODY, compacted, current_body, grants_columns, pack, pack_parts


def said_answers(said: Sequence[Said], names: Sequence[str | None], withheld: frozenset[str]) -> list[Output]:
    """Answers, each for its query's topic, and the newest of each group as the current one.

    `names` are the coordinator's names of the query indices; unsettled answers of `withheld` queries are not said.
    """
    if not said:
        return []
    whole = Said._make(np.concatenate(columns) for columns in zip(*said, strict=True))
    spoken = {query: query_and_group(str(names[query])) for query in np.unique(whole.query).tolist()}
    topics = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in spoken.values()))}
    topic_of = np.zeros(len(names), np.int64)
    topic_of[list(spoken)] = [topics[name] for name, _ in spoken.values()]
    order = np.lexsort((whole.at, topic_of[whole.query]))
    order = order[~_withheld(whole, order, topic_of, [topics[name] for name in topics if name in withheld])]
    table = _table(Said._make(column[order] for column in whole), spoken)
    numbers, counts = np.unique(topic_of[whole.query][order], return_counts=True)
    texts = list(topics)
    outputs = [
        Output(f"answers.{texts[number]}", payload)
        for number, payload in zip(numbers.tolist(), pack_parts(table, counts.cumsum().tolist()), strict=True)
    ]
    if len(order):
        outputs.append(Output(SEVERAL, pack(_current(table, whole.query[order]))))
    return outputs


def _withheld(said: Said, order: Integers, topic_of: Integers, silent: list[int]) -> Flags:
    """Which of the answers, in this order, are unsettled ones of queries that say nothing then."""
    unsettled = (said.flags[order] & (STALE | SETTLING)) != 0
    return unsettled & np.isin(topic_of[said.query[order]], silent)


def _table(said: Said, spoken: dict[int, tuple[str, str]]) -> pa.RecordBatch:
    """Answers as rows of ANSWERS."""
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
        [f"current.{row['query']}" for row in last],
        [row["group"] for row in last],
        [row["at"] for row in last],
        [current_body(row) for row in last],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, rows.SEVERAL, strict=True)]
    return pa.record_batch(arrays, schema=rows.SEVERAL)


def said_farewell(query: str, groups: Sequence[str], at: int) -> Output:
    """A query is dropped: it has no current answers any more."""
    return Output(f"current.{query}", pack(compacted([(group, at, None) for group in groups])))


def said_grants(
    topic: str, decided: Decided, names: Sequence[str | None], shrink: float, forgotten: list[str], version: int
) -> list[Output]:
    """Grants for their compacted topic; those of items that are gone are forgotten, under `version`."""
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
        bodies["far"], bodies["leave"] = decided.far[alive], decided.leave[alive]
        texts = [str(names[item]) for item in decided.item[alive].tolist()]
        outputs.append(Output(topic, pack(grants_columns(texts, decided.version[alive], bodies))))
    return outputs


def status(engine: Engine, stream: str, shard: int, horizon: int) -> Output:
    """How the shard is, for `tolerant status` and `explain`: a summary, a table of items, and one of sums."""
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
        "horizon": horizon,
        "epoch": coordinator.ledger.epoch,
        "items": len(items),
        **engine.tally.numbers(),
        "late_sources": engine.tally.late_sources,
        "sources": sources,
        "conflicts": [conflict._asdict() for conflict in engine.disputes.conflicts()],
        "queries": {name: _query_summary(engine, name) for name in engine.selects},
    }
    bodies = [
        (f"summary/{shard}", json.dumps(summary).encode()),
        (f"items/{shard}", pack(_item_table(engine))),
        (f"sums/{shard}", pack(_sum_table(engine))),
    ]
    return Output(f"status.{stream}", pack(compacted([(key, horizon, body) for key, body in bodies])))


def _query_summary(engine: Engine, name: str) -> dict[str, object]:
    select = engine.selects[name]
    groups = engine.coordinator.standing([instance_name(name, group) for group in engine.instances[name]])
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
    names = engine.coordinator.item_names()
    keys = pa.array([str(names[item]) for item in items.tolist()], pa.string())
    return pa.record_batch({"key": keys, **_columns(engine, items, engine.roll.owner[items])})


def _sum_table(engine: Engine) -> pa.RecordBatch:
    """The sums that sources send in place of items: of which query, and of which items."""
    formed, names = engine.forms.formed(), engine.coordinator.item_names()
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
