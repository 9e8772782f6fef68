"""Retention: a join of two tables with memory for n rows; the core is `tolerant.retention`."""

from __future__ import annotations

from tolerant.kinds.kept_joins.factory import AppendOnlyJoinFactory
from tolerant.kinds.kept_joins.select import KeepJoinSelect, check, recognise
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput
from tolerant.sql.query_kind import QueryKind


def _is_append_only(relation: object) -> bool:
    return isinstance(relation, AppendOnlyJoinInput)


KIND = QueryKind(
    name="retention",
    title="joins with memory for some rows",
    selects=(KeepJoinSelect,),
    recognise=recognise,
    check=check,
    hosts=_is_append_only,
    shards=AppendOnlyJoinFactory.of,
    listener="tolerant.kinds.kept_joins.listener:KeptListenerFactory",
    explain="tolerant.cli.explain_joins:explained",
)
