"""A poller that runs by the log: statements in, pulls out; stopped and started again; several that share a stream.

The server is real and time is given: a tick ends when every request that began in it has been answered.
"""

import asyncio

import pytest

pytest.importorskip("aiohttp")


from tolerant.client import StatementClient
from tolerant.edge.polling import StreamPoller
from tolerant.edge.polling.stream_poller import SCHEMA, endpoint_of, warm
from tolerant.kernels.snapshots import State
from tolerant.sql import CreateStream, encode, parse
from tolerant.streams import SECOND
from tolerant.testing.faulty_server import FaultyServer
from tolerant.transport import MemoryLog
from tolerant.transport.rows import compacted, unpack

START = 1_000_000 * SECOND
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
    StatementClient(log).send(parse(text))


def pulls(log):
    return [row for entry in log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]


def until(condition, what):
    """Let ticks pass until the condition holds."""
    for _ in range(400):
        if condition():
            return
        yield
    raise TimeoutError(what)


async def playing(log, play, start=START, **parts):
    """Run a poller for each of the parts, by name. At the end of each tick it is the turn of `play`, a generator, up to
    its next `yield`; the pollers stop when it ends.
    """
    now, barrier, pollers = start, asyncio.Barrier(len(parts)), {}

    async def sleep(name, seconds):
        nonlocal now
        await pollers[name].http.drain()
        if await barrier.wait() == 0:
            now += round(seconds * SECOND)
            try:
                next(turns)
            except StopIteration:
                for poller in pollers.values():
                    poller.stop()
        await barrier.wait()

    for name, part in parts.items():
        pollers[name] = StreamPoller(
            "quotes", log, name, part=part, clock=lambda: now, sleep=lambda seconds, name=name: sleep(name, seconds)
        )
    turns = play(*pollers.values())
    async with asyncio.TaskGroup() as group:
        for poller in pollers.values():
            group.create_task(poller.run())
    return now, *pollers.values()


def test_statements_are_followed_while_it_runs():
    async def main():
        async with FaultyServer(dict.fromkeys([*SYMBOLS, "E"], 1.0)) as server:
            log = exchange(server.url)

            def play(poller):
                yield from until(lambda: {row["item"] for row in pulls(log)} == set(SYMBOLS), "four items")
                say(log, "CREATE QUERY more AS SELECT AVG(price) FROM quotes WHERE symbol = 'E' WITHIN 1 FIDELITY 0.9")
                yield from until(lambda: "E" in {row["item"] for row in pulls(log)}, "the fifth")
                say(log, "ALTER QUERY more WITHIN 0")
                yield from until(lambda: poller.poller.queries[1].within == 0, "the alteration")
                say(log, "DROP QUERY total")
                yield from until(lambda: poller.poller.items == ["E"], "the end of the others")
                # A query within 0 takes asking at every tick.
                begun = len(pulls(log))
                for _ in range(6):
                    yield
                assert len(pulls(log)) == begun + 6
                say(log, "DROP QUERY more")
                say(log, "DROP STREAM quotes")
                yield
                raise AssertionError("the poller of a stream that was dropped still runs")

            await playing(log, play, poller=(1, 1))
            assert {row["source"] for row in pulls(log)} == {"poller"}
            assert {row["kind"] for row in pulls(log)} == {"value"}

    asyncio.run(main())


@pytest.mark.parametrize("kept", [True, False])
def test_one_that_is_started_again_has_the_same_model(kept, monkeypatch):
    if not kept:  # as after a crash
        monkeypatch.setattr(StreamPoller, "save", lambda self: None)

    async def main():
        values = dict.fromkeys(SYMBOLS, 1.0)
        async with FaultyServer(values) as server:
            log = exchange(server.url)

            def play(poller):
                for step in range(40):
                    values["A"] = step * 0.2
                    server.faults["B"] = "500" if 10 < step < 20 else None
                    yield

            now, first = await playing(log, play, poller=(1, 1))
            again = StreamPoller("quotes", log, "poller", clock=lambda: now)
            again.restore()
            assert (log.latest("models.quotes", "model") is not None) == kept
            assert again.poller.items == first.poller.items
            for item in SYMBOLS:
                assert again.poller.last_pull(item) == first.poller.last_pull(item)
            mine, its = first.poller.figures(), again.poller.figures()
            for name in ("pulls", "variance"):
                assert its[name].tolist() == pytest.approx(mine[name].tolist())
            made = len(pulls(log))
            asked = len(server.requests)

            def play_on(poller):
                yield from until(lambda: len(pulls(log)) > made, "more pulls")

            await playing(log, play_on, now, poller=(1, 1))
            # It knows the quiet ones: they are not asked for anew.
            assert len(server.requests) - asked < len(SYMBOLS) + 3

    asyncio.run(main())


def test_the_model_of_another_stream_of_the_same_name_is_not_taken():
    log = exchange("http://h")
    first = StreamPoller("quotes", log)
    first.restore()
    first.save()
    say(log, "DROP QUERY total")
    say(log, "DROP STREAM quotes")
    say(log, "CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://other/{symbol}'")
    again = StreamPoller("quotes", log)
    again.restore()
    assert again.poller.items == []
    assert again.poller.options.max_interval == 60


FORGED = {
    "query.stop": 2**40,
    "query.start": -(2**62),
    "row.stop": 3,
    "row.start": -(2**62),
    "item.server": 2**62,
    "item.stepped": -(2**62),
    "item.last": 2**62,
    "item.learned": 2**40,
    "item.running": -1,
    "item.predictor": 1000,
    "query.since": 2**62,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_not_taken(name):
    """Compiled code would look where its numbers say."""
    log, poller = _kept_model()
    state = poller.poller.state()
    part, field = name.split(".")
    state[part][field] = state[part][field].copy()
    state[part][field][0] = FORGED[name]
    _forge(log, poller.stream, state)
    _starts_anew(log)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("now", 2**61),
        ("now", 7),
        ("now", "x"),
        ("origin", "x"),
        ("options", {"states": 10**9}),
        ("options", {"costs": 5}),
        ("options", {"servers": 5}),
        ("options", None),
        ("item", None),
    ],
)
def test_a_model_of_another_time_or_with_other_options_is_not_taken(name, value):
    log, poller = _kept_model()
    state = poller.poller.state()
    state[name] = state[name] | value if isinstance(value, dict) else value
    _forge(log, poller.stream, state)
    _starts_anew(log)


@pytest.mark.parametrize("position", [2**63 - 1, -1])
def test_a_model_of_a_position_that_the_log_does_not_have_is_not_taken(position):
    log, _ = _kept_model()
    others = exchange("http://h")
    others.append("models.quotes", compacted([("model", position, log.latest("models.quotes", "model").body)]))
    _starts_anew(others)


def test_a_small_model_that_claims_much_memory_is_not_taken():
    log, _ = _kept_model()
    body = bytearray(log.latest("models.quotes", "model").body)
    body[12:20] = (2**40).to_bytes(8, "little")
    log.append("models.quotes", compacted([("model", log.end(), bytes(body))]))
    _starts_anew(log)


def _kept_model():
    log = exchange("http://h")
    poller = StreamPoller("quotes", log)
    poller.restore()
    now = poller._clock() // poller.stream.options.tick
    for tick in range(now - 20, now):
        for item in poller.poller.due(tick):
            poller.poller.pulled(item, float(tick % 7), tick)
    poller.save()
    return log, poller


def _forge(log, stream, state):
    body = SCHEMA.pack(State(stream=encode(CreateStream(stream)), poller=state))
    log.append("models.quotes", compacted([("model", log.end(), body)]))


def _starts_anew(log):
    again = StreamPoller("quotes", log)
    again.restore()
    assert list(again.poller.items) == list(SYMBOLS)
    assert all(again.poller.last_pull(item) is None for item in SYMBOLS)


def test_a_model_that_was_kept_is_taken():
    log, poller = _kept_model()
    again = StreamPoller("quotes", log)
    again.restore()
    assert all(again.poller.last_pull(item) == poller.poller.last_pull(item) is not None for item in SYMBOLS)


def test_several_share_a_stream_by_item():
    async def main():
        values = dict.fromkeys(SYMBOLS, 1.0)
        async with FaultyServer(values) as server:
            log = exchange(server.url)

            def play(*pollers):
                for step in range(30):
                    values["A"], values["D"] = step * 0.1, step * 0.1
                    yield
                yield from until(lambda: {row["item"] for row in pulls(log)} == set(SYMBOLS), "all items")
                yield  # each reads what the other has pulled
                assert all(poller.poller.last_pull(item) is not None for item in SYMBOLS for poller in pollers)

            await playing(log, play, one=(1, 2), two=(2, 2))
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
    assert endpoint_of(one).requests(["7"])[0].url == "http://h/7"
    two = parse("CREATE STREAM s (a STRING, b INT, v DOUBLE) KEY (a, b) FROM 'http://h/{b}/{a}'").stream
    assert endpoint_of(two).requests(['["x y",3]'])[0].url == "http://h/3/x%20y"
    many = parse(
        "CREATE STREAM s (id STRING, v DOUBLE) KEY (id) FROM 'http://h/{id}' WITH (batch = 2, path = '$.{id}')"
    ).stream
    assert [ask.url for ask in endpoint_of(many).requests(["a", "b", "c"])] == ["http://h/a,b", "http://h/c"]


@pytest.fixture(autouse=True, scope="module")
def compiled():
    warm()
