"""The application's side: send statements, listen to answers and subscriptions.

The current answer comes first, then every change; a reader that resumes from a stored position gets each change exactly
once. One client reads each topic once for all its listeners. An `Extractor` per kind of query finds each listener's
part of a topic.
"""

from tolerant.client.answer_listener import Change
from tolerant.client.client import Client, NotAnswered, Subscription
from tolerant.client.liveness import Outage
from tolerant.client.row_select import SelectedRows
from tolerant.client.statements import Comparison, Registered, Reply, Sent, StatementClient
from tolerant.client.subscription_list import SubscriptionPage, list_subscriptions
from tolerant.kinds.kept_joins.listener import KeptChange, KeptShare, kept_share
from tolerant.kinds.notices.listener import AnswerChange
from tolerant.kinds.ranges.listener import RowChange
from tolerant.kinds.views.listener import ConditionMet
from tolerant.kinds.views.refresh import Refreshed, ViewRows
from tolerant.sql.catalogue_reader import load_catalogue
from tolerant.transport.feeds import Extracted, Extractor, Listener
from tolerant.transport.positions import Position

__all__ = [
    "AnswerChange",
    "Change",
    "Client",
    "Comparison",
    "ConditionMet",
    "Extracted",
    "Extractor",
    "KeptChange",
    "KeptShare",
    "Listener",
    "NotAnswered",
    "Outage",
    "Position",
    "Refreshed",
    "Registered",
    "Reply",
    "RowChange",
    "SelectedRows",
    "Sent",
    "StatementClient",
    "Subscription",
    "SubscriptionPage",
    "ViewRows",
    "kept_share",
    "list_subscriptions",
    "load_catalogue",
]
