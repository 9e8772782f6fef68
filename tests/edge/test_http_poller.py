import asyncio

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("aiohttp")


from tolerant.edge.polling import Endpoint, Host, HttpPoller, JsonPath, Limits, LogSink, MemorySink, replay_pulls
from tolerant.edge.polling.fetcher import _fresh, _pause
from tolerant.polling import Poller
from tolerant.queries import Aggregate
from tolerant.sql import CreateStream, encode
from tolerant.streams import Column, Stream, StreamOptions
from tolerant.testing.faulty_server import FaultyServer
from tolerant.transport import MemoryLog
from tolerant.transport.rows import STATEMENTS, unpack

TICK = 0.05
FAST = Limits(at_once=8, timeout=10.0, pause=0.01)


def quotes(server, **options):
    return Endpoint(server.url + "/quote/{symbol}", "$.price", key=("symbol",), **options)


def total(items, within=1.0, fidelity=0.9):
    return [Aggregate.over("total", "sum", items, within, fidelity)]


async def polled(
    server, items, ticks=12, *, endpoint=None, sink=None, limits=FAST, queries=None, each=None, prompt=True, **options
):
    sink = sink or MemorySink()
    queries = total(items) if queries is None else queries
    async with HttpPoller(endpoint or quotes(server), queries, sink, tick=TICK, limits=limits, **options) as poller:
        for tick in range(ticks):
            if each:
                each(tick)
            poller.step(tick)
            await (asyncio.wait_for(poller.drain(), 30) if prompt else asyncio.sleep(TICK))
        await asyncio.wait_for(poller.drain(), 30)
        return poller, sink


def test_values_come_and_answers_follow():
    async def play():
        async with FaultyServer({"A": 1.5, "B": 2}) as server:
            poller, sink = await polled(server, ["A", "B"], 4)
            assert poller.poller.current()[0].value == 3.5
            assert {(pull.item, pull.value) for pull in sink.pulls} == {("A", 1.5), ("B", 2.0)}
            # 0, 1, 3: a quiet item is asked for at growing intervals.
            assert [pull.tick for pull in sink.pulls if pull.item == "A"] == [0, 1, 3]
            assert poller.counts.requests == len(server.requests) == 6

    asyncio.run(play())


@pytest.mark.parametrize("fault", ["slow", "500", "malformed", "nan", "drop", "429", "huge"])
def test_a_fault_makes_its_items_old_and_nobody_wrong(fault):
    async def play():
        async with FaultyServer({"bad": 7.0, "good": 1.0}) as server:

            def each(tick):
                server.values["good"] = float(tick)
                if tick == 2:
                    server.values["bad"], server.faults["bad"] = 100.0, fault

            slow = fault == "slow"
            limits = Limits(timeout=0.2 if slow else 10.0, retries=1, pause=0.01)
            poller, sink = await polled(server, ["bad", "good"], 14, each=each, limits=limits, prompt=not slow)
            assert poller.poller.last_pull("bad")[0] == 7.0  # old, not wrong
            assert poller.poller.last_pull("bad")[1] < 3
            failed = [pull for pull in sink.pulls if pull.kind == "failed"]
            assert "bad" in {pull.item for pull in failed}
            if fault not in ("429", "slow"):  # a pause for the whole server; a timeout that a busy machine may break
                assert {pull.item for pull in failed} == {"bad"}
            assert all(pull.reason for pull in failed)
            if fault != "429":
                assert poller.poller.last_pull("good")[1] >= 7

    asyncio.run(play())


def test_it_recovers_when_the_server_does():
    async def play():
        async with FaultyServer({"A": 1.0}) as server:
            server.faults["A"] = "500"

            def each(tick):
                if tick == 5:
                    server.faults.clear()

            poller, sink = await polled(server, ["A"], 12, each=each)
            kinds = [(pull.tick, pull.kind) for pull in sink.pulls]
            assert kinds[:3] == [(0, "failed"), (1, "failed"), (3, "failed")]  # waits 1, 2, 4 ticks
            assert kinds[3] == (7, "value")
            assert poller.poller.current()[0].value == 1.0

    asyncio.run(play())


def test_retry_after_is_obeyed_by_the_whole_server():
    async def play():
        async with FaultyServer({"A": 1.0, "B": 1.0}) as server:
            server.faults["A"] = "429"
            await polled(server, ["A", "B"], 5)
            first = len(server.requests)
            assert first == 2  # both of tick 0 were under way; then silence for 0.3 s
            server.faults.clear()
            poller, _ = await polled(server, ["A", "B"], 12)
            assert poller.counts.suspended == 0

    asyncio.run(play())


def test_not_changed_is_a_pull_without_a_body():
    async def play():
        async with FaultyServer({"A": 1.0}, etags=True) as server:
            poller, sink = await polled(server, ["A"], 8)
            assert [pull.kind for pull in sink.pulls] == ["value", "unchanged", "unchanged", "unchanged"]
            assert (poller.counts.values, poller.counts.unchanged) == (1, 3)
            server.values["A"] = 5.0

    asyncio.run(play())


def test_it_does_not_ask_while_the_answer_is_said_to_hold():
    async def play():
        async with FaultyServer({"A": 1.0}, max_age=1) as server:
            await polled(server, ["A"], 15)
            assert len(server.requests) == 1

    asyncio.run(play())


def test_several_items_go_into_one_request():
    async def play():
        names = [f"s{k}" for k in range(10)]
        async with FaultyServer({name: float(k) for k, name in enumerate(names)}) as server:
            endpoint = Endpoint(server.url + "/quotes?of={symbol}", "$.{symbol}.price", key=("symbol",), batch=4)
            poller, sink = await polled(server, names, 1, endpoint=endpoint)
            assert [len(symbols) for symbols in server.requests] == [4, 4, 2]
            assert {pull.item: pull.value for pull in sink.pulls} == server.values
            assert poller.counts.pulls == 10

    asyncio.run(play())


def test_the_limits_of_a_server_are_kept():
    async def play():
        names = [f"s{k}" for k in range(12)]
        async with FaultyServer(dict.fromkeys(names, 1.0)) as server:
            limits = Limits(at_once=2, per_second=50.0, timeout=1.0)
            await polled(server, names, 1, limits=limits)
            assert server.most_at_once <= 2
            spent = np.diff(server.times)
            assert sum(spent) >= 11 / 50 - 0.02

    asyncio.run(play())


def test_a_server_that_is_not_there_is_a_failure():
    async def play():
        endpoint = Endpoint("http://127.0.0.1:9/quote/{symbol}", "$.price", key=("symbol",))
        poller, sink = await polled(None, ["A"], 2, endpoint=endpoint)
        assert {pull.kind for pull in sink.pulls} == {"failed"}
        assert poller.poller.current() == []

    asyncio.run(play())


def stream_log():
    log = MemoryLog()
    stream = Stream(
        "quotes",
        (Column("symbol", "STRING"), Column("price", "DOUBLE")),
        ("symbol",),
        options=StreamOptions(tick=50_000),
    )
    row = {"kind": "stream", "key": "quotes", "request": "", "text": "", "body": encode(CreateStream(stream))}
    log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    return log


def test_pulls_and_updates_are_rows_of_the_log_and_a_new_poller_learns_from_them():
    async def play(log):
        async with FaultyServer({"A": 1.0, "B": 2.0}, etags=True) as server:

            def each(tick):
                server.values["A"] = float(tick)
                server.faults = {"B": "500"} if tick == 3 else {}

            poller, _ = await polled(server, ["A", "B"], 10, sink=LogSink("quotes", log, "poller-1"), each=each)
            return poller.poller

    log = stream_log()
    poller = asyncio.run(play(log))
    pulls = [row for entry in log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]
    assert {row["kind"] for row in pulls} == {"value", "unchanged", "failed"}
    updates = [row for entry in log.read("updates.quotes") for row in unpack(entry.payload).to_pylist()]
    sent = [row["value"] for row in updates if row["key"] == "A" and row["kind"] in ("hello", "update")]
    assert sent == [row["value"] for row in pulls if row["item"] == "A"]
    again = Poller(poller.queries, "risk")
    assert replay_pulls(again, log, "quotes") == len(pulls)
    assert again.last_pull("A") == poller.last_pull("A")
    assert again.last_pull("B") == poller.last_pull("B")
    assert again.due(10) == poller.due(10)


def test_what_the_sink_cannot_take_is_raised():
    class Broken(MemorySink):
        def write(self, pulls):
            raise OSError("disk full")

    async def play():
        async with FaultyServer({"A": 1.0}) as server:
            with pytest.raises(OSError, match="disk full"):
                await polled(server, ["A"], 5, sink=Broken())

    asyncio.run(play())


# -- addresses and paths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "document", "number"),
    [
        ("$", 3, 3.0),
        ("$.a.b", {"a": {"b": 1.5}}, 1.5),
        ("$.a[1]", {"a": [0, 2]}, 2.0),
        ("$[-1]['x y']", [{"x y": "4"}], 4.0),
        ('$["k"]', {"k": 1e3}, 1000.0),
    ],
)
def test_a_path_names_one_number(path, document, number):
    assert JsonPath(path).number(document) == number


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$.a", {}), ("$.a", [1]), ("$[3]", [1]), ("$", True), ("$", None), ("$", "one"), ("$", float("inf")),
        ("$", []), ("$", "1e999"),
    ],
)  # fmt: skip
def test_what_is_no_finite_number_is_refused(path, document):
    with pytest.raises(ValueError, match=r"at \$"):
        JsonPath(path).number(document)


@pytest.mark.parametrize("path", ["a.b", "$.a[", "$..a", "$[x]"])
def test_a_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(ValueError, match="JSON path"):
        JsonPath(path)


def test_addresses_are_filled_and_quoted():
    endpoint = Endpoint("https://h:8/{host}/{kind}", "$", key=("host", "kind"), parts=lambda item: item.split("|"))
    (ask,) = endpoint.requests(["web 1|in/out"])
    assert (ask.url, ask.host) == ("https://h:8/web%201/in%2Fout", "https://h:8")


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://h/{k}", {}, "url"),
        ("http:///{k}", {}, "url"),
        ("http://h/", {}, "key column"),
        ("http://h/{k}/{other}", {}, "key column"),
        ("http://h/{k}", {"batch": 0}, "batch"),
        ("http://h/{k}", {"batch": 2}, "whose value"),
    ],
)
def test_bad_endpoints_are_named(url, options, message):
    with pytest.raises(ValueError, match=message):
        Endpoint(url, "$.price", key=("k",), **options)


def test_bad_limits_and_ticks_are_named():
    for options in ({"at_once": 0}, {"timeout": 0}, {"per_second": 0}, {"retries": -1}):
        with pytest.raises(ValueError, match="must be"):
            Limits(**options)
    endpoint = Endpoint("http://h/{k}", "$", key=("k",))
    with pytest.raises(ValueError, match="tick"):
        HttpPoller(endpoint, [], MemorySink(), tick=0)
    with pytest.raises(ValueError, match="options"):
        HttpPoller(endpoint, Poller(), MemorySink(), chooser="max")


def test_servers_words_on_time_are_read():
    assert _fresh({"Cache-Control": "public, Max-Age=30"}) == 30.0
    assert _fresh({"Cache-Control": "no-store"}) == 0.0
    assert _pause("12") == 12.0
    assert _pause("soon") == 60.0
    assert _pause("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


# -- servers that are down ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["500", "malformed", "nan", "huge"])
def test_a_server_that_was_down_is_asked_for_everything_as_soon_as_it_answers_a_probe(fault):
    async def play():
        names = [f"s{k}" for k in range(20)]
        async with FaultyServer(dict.fromkeys(names, 1.0)) as server:
            asked = {}

            def each(tick):
                asked[tick] = len(server.requests)
                server.values.update(dict.fromkeys(names, float(tick)))
                if tick == 10:
                    server.faults = dict.fromkeys(names, fault)
                if tick == 60:
                    server.faults = {}

            poller, _ = await polled(server, names, 100, each=each, queries=total(names, 0.5))
            outage = asked[60] - asked[15]
            assert [tick for tick in range(12, 60) if asked[tick + 1] > asked[tick]] == [13, 17, 25, 41]
            assert outage == 3  # one item each
            assert all(len(items) == 1 for items in server.requests[asked[15] : asked[60]])
            assert min(poller.poller.last_pull(name)[1] for name in names) >= 60
            assert poller.poller.overdue() == frozenset()

    asyncio.run(play())


def test_items_that_fail_by_themselves_do_not_bring_a_server_down():
    async def play():
        names = [f"s{k}" for k in range(12)]
        async with FaultyServer(dict.fromkeys(names, 1.0)) as server:

            def each(tick):
                server.values.update(dict.fromkeys(names, tick * 0.5))
                server.faults = dict.fromkeys(names[:4], "500") if tick > 5 else {}

            poller, sink = await polled(server, names, 60, each=each, queries=total(names, 1.0))
            late = [pull for pull in sink.pulls if pull.tick > 20]
            assert {pull.item for pull in late if pull.kind == "value"} == set(names[4:])
            assert all(poller.poller.last_pull(name)[1] >= 55 for name in names[4:])
            tries = [pull.tick for pull in sink.pulls if pull.item == names[0] and pull.kind == "failed"]
            assert len(tries) <= 12

    asyncio.run(play())


def test_a_host_is_down_when_nothing_is_answered_and_up_when_something_is():
    host = Host(Limits(), lambda: 0.0, tick=1.0)
    for item in "abcdefgh":
        host.requested([item])
        host.answered([item])
    host.failed(["a"], 0)
    host.failed(["a"], 1)
    host.failed(["b"], 2)
    assert not host.down
    host.failed(["c"], 3)
    assert host.down
    assert host.probe("abcdefgh", 3) is None
    assert host.probe("abcdefgh", 4) == "d"  # one that was had last
    assert [t for t in range(4, 40) if host.probe("a", t) and not host.failed(["a"], t)] == [
        4,
        6,
        10,
        15,
        20,
        25,
        30,
        35,
    ]
    assert host.answered(["d"])
    assert not host.down
    # Those that go on failing are nothing new.
    for item in "abc":
        host.failed([item], 40)
    assert not host.down
    host.forget("defgh")
    host.failed(["a"], 41)
    assert host.down  # nobody is left who answers
