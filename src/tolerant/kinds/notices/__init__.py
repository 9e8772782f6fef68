"""Notifications: an exact aggregate over a range, said when it changes; the core is `tolerant.notifications`."""

from __future__ import annotations

from tolerant.kinds.notices.select import RangeAggregateSelect, check, recognise
from tolerant.sql.query_kind import QueryKind

KIND = QueryKind(
    name="notifications",
    title="exact aggregates over a range, said when they change",
    selects=(RangeAggregateSelect,),
    recognise=recognise,
    check=check,
    templates=True,
    shard_query="tolerant.kinds.notices.notices:Notices.over",
    listener="tolerant.kinds.notices.listener:NoticeListenerFactory",
)
