"""Asks web servers for the items that a poller wants, and feeds what comes back into the log.

`Endpoint` says where an item is to be found and how its value is read from the answer; `HttpPoller` asks, tick by
tick, for what `tolerant.polling.Poller` says is due. A server that is slow, fails or talks nonsense makes its items
old, never wrong, and holds up no other. Needs the extra `http`: `pip install 'tolerant[http]'`.

    import asyncio
    from tolerant.edge.polling import Endpoint, HttpPoller, LogSink

    quotes = Endpoint("http://localhost:8080/quote/{symbol}", "$.price", key=("symbol",))
    async def main():
        async with HttpPoller(quotes, queries, LogSink("quotes", "sqlite:///log.db")) as poller:
            await poller.run()
    asyncio.run(main())
"""

from tolerant.edge.polling.endpoint import Ask, Endpoint
from tolerant.edge.polling.hosts import Host, Limits
from tolerant.edge.polling.http_poller import Counts, HttpPoller
from tolerant.edge.polling.jsonpath import JsonPath
from tolerant.edge.polling.outcomes import Failed, Suspended, Unchanged, Values
from tolerant.edge.polling.sinks import LogSink, MemorySink, PullSink, replay_pulls
from tolerant.edge.polling.stream_poller import StreamPoller
from tolerant.transport.pulls import Pull

__all__ = [
    "Ask",
    "Counts",
    "Endpoint",
    "Failed",
    "Host",
    "HttpPoller",
    "JsonPath",
    "Limits",
    "LogSink",
    "MemorySink",
    "Pull",
    "PullSink",
    "StreamPoller",
    "Suspended",
    "Unchanged",
    "Values",
    "replay_pulls",
]
