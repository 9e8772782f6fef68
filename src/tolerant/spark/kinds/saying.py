"""What a shard of bounded queries says: answers, grants, dead letters, replies and its status, packed for their
topics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tolerant.filters.state import NOTHING, SETTLING, STALE, Decided, Flags, Floats, Said
from tolerant.spark.hosting import Output
from tolerant.spark.kinds.engine import Engine
from tolerant.spark.kinds.membership import instance_name, query_and_group
from tolerant.transport.rows import ANSWERS, GRANT_BODY, compacted, current_body, grants_columns, pack


def said_answers(said: Sequence[Said], names: Sequence[str | None], withheld: frozenset[str]) -> list[Output]:
    """Answers, each for its query's topic, and the newest of each group as the current one.

    `names` are the coordinator's names of the query indices; unsettled answers of `withheld` queries are not said.
    """
    if not said:
        return []
    whole = Said(*(np.concatenate(columns) for columns in zip(*said, strict=True)))
    outputs: list[Output] = []
    by_query: dict[str, list[tuple[int, str]]] = {}
    for query in np.unique(whole.query):
        if (name := names[query]) is not None:
            by_query.setdefault(query_and_group(name)[0], []).append((int(query), query_and_group(name)[1]))
    for name, groups in by_query.items():
        table = _answers(whole, name, groups, name in withheld)
        if len(table):
            outputs.append(Output(f"answers.{name}", pack(table)))
            outputs.append(Output(f"current.{name}", pack(_current(table))))
    return outputs


def _answers(said: Said, name: str, groups: list[tuple[int, str]], withhold: bool) -> pa.RecordBatch:
    """The answers of one query, all its groups, in order of time."""
    text = dict(groups)
    chosen = np.flatnonzero(np.isin(said.query, list(text)))
    if withhold:
        chosen = chosen[(said.flags[chosen] & (STALE | SETTLING)) == 0]
    chosen = chosen[np.argsort(said.at[chosen], kind="stable")]
    flags = said.flags[chosen]
    nothing = (flags & NOTHING) > 0
    columns = [
        pa.array([name] * len(chosen), pa.string()),
        pa.array([text[query] for query in said.query[chosen].tolist()], pa.string()),
        pa.array(said.at[chosen], pa.int64()),
        *(_nullable(column[chosen], nothing) for column in (said.low, said.value, said.high)),
        pa.array((flags & STALE) > 0),
        pa.array((flags & SETTLING) > 0),
    ]
    return pa.record_batch(columns, schema=ANSWERS)


def _nullable(values: Floats, nothing: Flags) -> pa.Array:
    return pa.array(values, pa.float64(), mask=nothing | ~np.isfinite(values))


def _current(table: pa.RecordBatch) -> pa.RecordBatch:
    """The last answer of each group, as rows of a compacted topic; `version` is its time."""
    last = {group: row for row, group in enumerate(table.column("group").to_pylist())}
    rows = table.take(pa.array(list(last.values()))).to_pylist()
    return compacted([(row["group"], row["at"], current_body(row)) for row in rows])


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
        bodies["confirm"] = decided.confirm[alive]
        texts = [str(names[item]) for item in decided.item[alive].tolist()]
        outputs.append(Output(topic, pack(grants_columns(texts, decided.version[alive], bodies))))
    return outputs


def status(engine: Engine, stream: str, shard: int, horizon: int) -> Output:
    """How the shard is, for `tolerant status` and `explain`: a summary and a table of items."""
    tally = engine.tally
    coordinator = engine.coordinator
    items = engine.items()
    owners = engine.owner_of(items)
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
        "epoch": coordinator.epoch,
        "items": len(items),
        **{name: count for name, count in vars(tally).items() if isinstance(count, int)},
        "sources": sources,
        "queries": {name: _query_summary(engine, name) for name in engine.selects},
    }
    rows = [
        (f"summary/{shard}", json.dumps(summary).encode()),
        (f"items/{shard}", pack(_item_table(engine))),
    ]
    return Output(f"status.{stream}", pack(compacted([(key, horizon, body) for key, body in rows])))


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
    view = engine.coordinator.item_view(engine.items())
    owners = engine.owner_of(engine.items())
    return pa.record_batch(
        {
            "key": pa.array(view.names, pa.string()),
            "width": pa.array(view.width),
            "believed": pa.array(view.believed),
            "value": pa.array(view.centre),
            "updates": pa.array(view.total),
            "updates_per_second": pa.array(view.pace / engine.seconds_per_period),
            "burden": pa.array(view.burden),
            "source": pa.array([engine.sources.names[owner] for owner in owners.tolist()], pa.string()),
            "stale": pa.array(view.stale),
        }
    )
