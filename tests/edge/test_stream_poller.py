"""A poller that runs by the log: statements in, pulls out; stopped and started again; several that share a stream."""

import asyncio

import pytest

pytest.importorskip("aiohttp")


from tolerant.client import send
from tolerant.edge.polling import StreamPoller
from tolerant.edge.polling.stream_poller import endpoint_of, warm
from tolerant.sql import parse
from tolerant.testing.faulty_server import FaultyServer
from tolerant.transport import MemoryLog
from tolerant.transport.rows import unpack

TICK = 0.05
SYMBOLS = ["A", "B", "C", "D"]


def exchange(url, options=""):
    """A log with a polled stream and a query over four items."""
    log = MemoryLog()
    say(
        log,
        f"CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM '{url}/quote/{{symbol}}'"
        f" WITH (path = '$.price', tick = '50 ms', max_interval = 10, timeout = '2 s'{options})",
    )
    listed = ", ".join(f"'{symbol}'" for symbol in SYMBOLS)
    say(log, f"CREATE QUERY total AS SELECT SUM(price) FROM quotes WHERE symbol IN ({listed}) WITHIN 1 FIDELITY 0.9")
    return log


def say(log, text):
    send(log, parse(text))


def pulls(log):
    return [row for entry in log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]


async def until(condition, what, seconds=20.0):
    for _ in range(int(seconds / TICK)):
        if condition():
            return
        await asyncio.sleep(TICK)
    raise TimeoutError(what)


async def playing(log, play, **options):
    poller = StreamPoller("quotes", log, options.pop("name", "poller"), **options)
    task = asyncio.create_task(poller.run())
    try:
        await play(poller)
    finally:
        poller.stop()
        await asyncio.wait_for(task, 20)
    return poller


def test_statements_are_followed_while_it_runs():
    async def main():
        async with FaultyServer(dict.fromkeys([*SYMBOLS, "E"], 1.0)) as server:
            log = exchange(server.url)

            async def play(poller):
                await until(lambda: {row["item"] for row in pulls(log)} == set(SYMBOLS), "four items")
                say(log, "CREATE QUERY more AS SELECT AVG(price) FROM quotes WHERE symbol = 'E' WITHIN 1 FIDELITY 0.9")
                await until(lambda: "E" in {row["item"] for row in pulls(log)}, "the fifth")
                say(log, "ALTER QUERY more WITHIN 0")
                await until(lambda: poller.poller.queries[1].within == 0, "the alteration")
                say(log, "DROP QUERY total")
                await until(lambda: poller.poller.items == ["E"], "the end of the others")
                # A query within 0 takes asking at every tick.
                begun = len(pulls(log))
                await until(lambda: len(pulls(log)) > begun + 5, "many pulls")
                say(log, "DROP QUERY more")
                say(log, "DROP STREAM quotes")
                await asyncio.sleep(3 * TICK)

            await playing(log, play)
            assert {row["source"] for row in pulls(log)} == {"poller"}
            assert {row["kind"] for row in pulls(log)} == {"value"}

    asyncio.run(main())


@pytest.mark.parametrize("kept", [True, False])
def test_one_that_is_started_again_has_the_same_model(kept, monkeypatch):
    if not kept:  # as after a crash
        monkeypatch.setattr(StreamPoller, "keep", lambda self: None)

    async def main():
        values = dict.fromkeys(SYMBOLS, 1.0)
        async with FaultyServer(values) as server:
            log = exchange(server.url)

            async def play(poller):
                for step in range(40):
                    values["A"] = step * 0.2
                    server.faults["B"] = "500" if 10 < step < 20 else None
                    await asyncio.sleep(TICK)

            first = await playing(log, play)
            again = StreamPoller("quotes", log, "poller")
            again.recall()
            assert (log.latest("models.quotes", "model") is not None) == kept
            assert again.poller.items == first.poller.items
            for item in SYMBOLS:
                assert again.poller.held(item) == first.poller.held(item)
            mine, its = first.poller.figures(), again.poller.figures()
            for name in ("pulls", "variance"):
                assert its[name].tolist() == pytest.approx(mine[name].tolist())
            made = len(pulls(log))
            asked = len(server.requests)

            async def go_on(poller):
                await until(lambda: len(pulls(log)) > made, "more pulls")

            await playing(log, go_on)
            # It knows the quiet ones: they are not asked for anew.
            assert len(server.requests) - asked < len(SYMBOLS) + 3

    asyncio.run(main())


def test_the_model_of_another_stream_of_the_same_name_is_not_taken():
    log = exchange("http://h")
    first = StreamPoller("quotes", log)
    first.recall()
    first.keep()
    say(log, "DROP QUERY total")
    say(log, "DROP STREAM quotes")
    say(log, "CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://other/{symbol}'")
    again = StreamPoller("quotes", log)
    again.recall()
    assert again.poller.items == []
    assert again.poller.options.max_interval == 60


def test_several_share_a_stream_by_item():
    async def main():
        values = dict.fromkeys(SYMBOLS, 1.0)
        async with FaultyServer(values) as server:
            log = exchange(server.url)

            async def other(poller):
                for step in range(30):
                    values["A"], values["D"] = step * 0.1, step * 0.1
                    await asyncio.sleep(TICK)
                await until(lambda: {row["item"] for row in pulls(log)} == set(SYMBOLS), "all items")
                await asyncio.sleep(4 * TICK)
                assert all(poller.poller.held(item) is not None for item in SYMBOLS)

            async def one(poller):
                await playing(log, other, name="two", part=(2, 2))

            await playing(log, one, name="one", part=(1, 2))
            by_source = {name: {row["item"] for row in pulls(log) if row["source"] == name} for name in ("one", "two")}
            assert not by_source["one"] & by_source["two"]
            assert all(by_source.values())

    asyncio.run(main())


def test_what_cannot_be_polled_is_named():
    log = MemoryLog()
    say(log, "CREATE STREAM plain (k STRING, v DOUBLE) KEY (k)")
    with pytest.raises(ValueError, match="not polled"):
        StreamPoller("plain", log)
    with pytest.raises(LookupError, match="no stream"):
        StreamPoller("none", log, timeout=0.0)
    with pytest.raises(ValueError, match="part"):
        StreamPoller("quotes", exchange("http://h"), part=(3, 2))


def test_addresses_of_keys_of_every_kind():
    one = parse("CREATE STREAM s (id INT, v DOUBLE) KEY (id) FROM 'http://h/{key}'").stream
    assert endpoint_of(one).asks(["7"])[0].url == "http://h/7"
    two = parse("CREATE STREAM s (a STRING, b INT, v DOUBLE) KEY (a, b) FROM 'http://h/{b}/{a}'").stream
    assert endpoint_of(two).asks(['["x y",3]'])[0].url == "http://h/3/x%20y"
    many = parse(
        "CREATE STREAM s (id STRING, v DOUBLE) KEY (id) FROM 'http://h/{id}' WITH (batch = 2, path = '$.{id}')"
    ).stream
    assert [ask.url for ask in endpoint_of(many).asks(["a", "b", "c"])] == ["http://h/a,b", "http://h/c"]


@pytest.fixture(autouse=True, scope="module")
def compiled():
    warm()
