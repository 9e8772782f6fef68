"""The application's side: send statements, listen to answers and subscriptions.

The current answer comes first, then every change; a reader that resumes from a stored position gets each change exactly
once. One client reads each topic once for all its listeners. An `Extractor` per kind of query finds each listener's
part of a topic.
"""

from tolerant.client.answer_listener import Change
from tolerant.client.client import Client, NotAnswered, Subscription
from tolerant.client.feeds import Extracted, Extractor, Listener
from tolerant.client.liveness import Outage
from tolerant.client.positions import Position
from tolerant.client.range_answer_listener import AnswerChange
from tolerant.client.result_listener import KeptChange, KeptShare, kept_share
from tolerant.client.row_listener import RowChange
from tolerant.client.row_select import SelectedRows
from tolerant.client.statements import Comparison, Registered, Reply, Sent, StatementClient
from tolerant.client.subscription_list import SubscriptionPage, list_subscriptions
from tolerant.client.view_refresh import ConditionMet, Refreshed, ViewRows
from tolerant.sql.catalogue_reader import load_catalogue

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
