"""The inputs of pipelines: which pipelines a catalogue needs, the topics that each reads, its clock rows, and how its
rows are split between shards.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tolerant.pipeline.partitioning import PairSplit
from tolerant.pipeline.splitter import Splitter, splitter
from tolerant.sql import Catalogue, CreateTable, JoinInput, Select
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.pipeline_inputs import Views, join_input
from tolerant.streams import Stream
from tolerant.transport import changes
from tolerant.transport.rows import NO_TIME, clock_batch
from tolerant.transport.topics import (
    QUERIES,
    changes_topic,
    pulls_topic,
    refreshes_topic,
    reports_topic,
    subscriptions_topic,
    updates_topic,
)

QueryRelation = Stream | CreateTable | JoinInput
"""The definition that a pipeline which is a streaming query serves."""

Relation = QueryRelation | Views
"""The definition that a pipeline serves."""


def served_relations(catalogue: Catalogue, also: Iterable[PipelineId] = ()) -> dict[str, Relation]:
    """What needs a pipeline, by its id: every stream, and the tables, pairs and views that there are queries over.

    `also`: pipelines that are wanted without a query, as long as their tables are there.
    """
    selects: dict[PipelineId, Select] = {}
    for query in catalogue.queries.values():
        selects.setdefault(PipelineId.of(query.select), query.select)
    served: dict[str, Relation] = {}
    for pipeline in sorted({*selects, *also}, key=str):
        tables = [catalogue.tables[name] for name in pipeline.relations if name in catalogue.tables]
        if len(tables) < len(pipeline.relations):
            continue
        if pipeline.views:
            served[str(pipeline)] = Views(tuple(tables))
        elif len(tables) == 2:
            served[str(pipeline)] = join_input(pipeline, tables, selects.get(pipeline))
        elif len(tables) == 1:
            served[str(pipeline)] = tables[0]
    return {**catalogue.streams, **served}


def tables_of(relation: Relation) -> tuple[CreateTable, ...]:
    """The tables of a relation; a stream has none."""
    if isinstance(relation, Stream):
        return ()
    return relation.tables if isinstance(relation, JoinInput | Views) else (relation,)


def clocks_of(relation: Relation, at: int, epoch: int, checkpoint: str) -> dict[str, pa.RecordBatch]:
    """The topics of a relation's rows, each with a clock row in its schema."""
    if isinstance(relation, Stream):
        return {updates_topic(relation.name): clock_batch(at, epoch, checkpoint)}
    clocks = {table.name: changes.clock_row(table.columns, at, epoch, checkpoint) for table in tables_of(relation)}
    return {changes_topic(name): row for name, row in clocks.items()}


def input_topics(relation: Relation) -> list[str]:
    """The topics that the shards of a relation's pipeline read."""
    topics = [QUERIES, *clocks_of(relation, NO_TIME, 0, "")]
    if isinstance(relation, Views):
        topics.append(refreshes_topic(relation.name))
    elif not isinstance(relation, Stream):
        topics.append(subscriptions_topic(relation.name))
    elif relation.polled:
        topics.append(pulls_topic(relation.name))
    elif relation.networked:
        topics.append(reports_topic(relation.name))
    return topics


def partitioning_of(relation: Relation) -> Splitter | None:
    """How the rows of a relation are split between shards; None: there is one shard."""
    if isinstance(relation, Stream):
        return splitter(relation)
    return PairSplit(relation) if isinstance(relation, JoinInput) and relation.shards > 1 else None
