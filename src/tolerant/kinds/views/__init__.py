"""Views: selects over tables, brought up to date in a stated time; the core is `tolerant.views`, the pipeline
`tolerant.spark.views`.
"""

from __future__ import annotations

from tolerant.kinds.views.select import ViewSelect, check, recognise
from tolerant.sql.query_kind import QueryKind

KIND = QueryKind(
    name="views",
    title="views that are brought up to date in a stated time",
    selects=(ViewSelect,),
    recognise=recognise,
    check=check,
    listener="tolerant.kinds.views.listener:ViewListenerFactory",
    explain="tolerant.cli.explain_view:explained",
)
