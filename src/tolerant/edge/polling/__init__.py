"""Requests items from web servers as a poller schedules them, and feeds the values into the log.

`Endpoint` has the address of each item and reads its value from the response; `HttpPoller` requests, tick by tick, what
`tolerant.polling.Poller` says is due. A server that is slow, fails or sends garbage makes its items old, never wrong,
and delays no other. Needs the extra `http`: `pip install 'tolerant[http]'`.

    import asyncio
    from tolerant.edge.polling import Endpoint, HttpPoller, LogSink

    quotes = Endpoint("http://localhost:8080/quote/{symbol}", "$.price", key=("symbol",))
    async def main():
        async with HttpPoller(quotes, queries, LogSink("quotes", "sqlite:///log.db")) as poller:
            await poller.run()
    asyncio.run(main())
"""

from tolerant.edge.polling.endpoint import Endpoint, ItemRequest
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.http_poller import HttpPoller, PullCounts
from tolerant.edge.polling.jsonpath import JsonPath
from tolerant.edge.polling.outcomes import Failed, FetchedValues, Suspended, Unchanged
from tolerant.edge.polling.sinks import LogSink, MemorySink, PullSink, replay_pulls
from tolerant.edge.polling.stream_poller import StreamPoller
from tolerant.transport.pulls import Pull

__all__ = [
    "Endpoint",
    "Failed",
    "FetchedValues",
    "Host",
    "HttpPoller",
    "ItemRequest",
    "JsonPath",
    "Limits",
    "LogSink",
    "MemorySink",
    "Pull",
    "PullCounts",
    "PullSink",
    "StreamPoller",
    "Suspended",
    "Unchanged",
    "replay_pulls",
]
