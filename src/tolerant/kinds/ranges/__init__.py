"""Ranges: every change of a row in a range; its cores are `tolerant.relations` and `tolerant.merging`."""

from __future__ import annotations

from tolerant.kinds.ranges.select import RangeSelect, check, recognise
from tolerant.kinds.tables.factory import TableFactory
from tolerant.sql.query_kind import QueryKind
from tolerant.sql.statements import CreateTable


def _is_table(relation: object) -> bool:
    return isinstance(relation, CreateTable)


KIND = QueryKind(
    name="ranges",
    title="every change of a row in a range",
    selects=(RangeSelect,),
    recognise=recognise,
    check=check,
    templates=True,
    hosts=_is_table,
    shards=TableFactory.of,
    shard_query="tolerant.kinds.ranges.selections:Selection.over",
    listener="tolerant.kinds.ranges.listener:RowListenerFactory",
    explain="tolerant.cli.explain_channels:explained",
)
