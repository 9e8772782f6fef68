"""Servers that mean harm, or are merely broken: what they do concerns their own items, and leads nowhere else."""

import asyncio
import gzip
import zlib

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from tolerant.client import StatementClient
from tolerant.edge.polling import Endpoint, HttpPoller, Limits, MemorySink, StreamPoller
from tolerant.edge.polling.stream_poller import authorization, warm
from tolerant.queries import Aggregate
from tolerant.sql import parse
from tolerant.sql.render import render
from tolerant.transport import MemoryLog
from tolerant.transport.rows import unpack

LIMITS = Limits(timeout=10.0, retries=0, largest=10_000)


class Server:
    """Answers /{item} as `handlers` say, by item; others with {"v": 1.0}. `seen`: what was asked for, with headers."""

    def __init__(self, **handlers):
        self.handlers, self.seen = handlers, []

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/{item:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error):
        await self._runner.cleanup()

    async def _answer(self, request):
        self.seen.append((request.path, dict(request.headers)))
        handler = self.handlers.get(request.match_info["item"])
        response = handler(request) if handler else web.json_response({"v": 1.0})
        return await response if asyncio.iscoroutine(response) else response

    def asked(self, path):
        return [headers for where, headers in self.seen if where == path]


def raw(head, body=b'{"v": 2.0}'):
    """A handler that writes these header lines, byte for byte."""

    def handler(request):
        length = b"Content-Length: %d\r\n" % len(body)
        request.transport.write(b"HTTP/1.1 " + head + b"\r\n" + length + b"Connection: close\r\n\r\n" + body)
        request.transport.close()
        return web.Response()

    return handler


async def polled(server, items, ticks=8, *, endpoint=None, **options):
    endpoint = endpoint or Endpoint(server.url + "/{k}", "$.v", key=("k",))
    query = Aggregate.over("total", "sum", items, 1.0, 0.9)
    sink = MemorySink()
    async with HttpPoller(endpoint, [query], sink, tick=0.05, limits=LIMITS, **options) as poller:
        for tick in range(ticks):
            poller.step(tick)
            await asyncio.wait_for(poller.drain(), 30)
    return poller, {item: [pull for pull in sink.pulls if pull.item == item] for item in items}


def plays(main):
    return asyncio.run(main())


@pytest.mark.parametrize("byte", [b"\x01", b"\x0b", b"\x1b", b"\x7f", b"\x85", b"\xff", b"\t"])
@pytest.mark.parametrize("header", [b"ETag", b"Last-Modified"])
def test_a_validator_with_control_characters_is_not_sent_back(byte, header):
    async def main():
        async with Server(bad=raw(b"200 OK\r\n" + header + b': "a' + byte + b'b"')) as server:
            _poller, pulls = await polled(server, ["bad", "good"])
            assert len(pulls["good"]) >= 4
            assert {pull.kind for pull in pulls["good"]} == {"value"}
            assert len(pulls["bad"]) >= 3
            assert not any({"If-None-Match", "If-Modified-Since"} & headers.keys() for headers in server.asked("/bad"))

    plays(main)


@pytest.mark.parametrize(
    "location",
    [b"http://[::1", b"http://a b/", b"http://\xff\xfe/", b"//", b"http://:99999/", b"ftp://h/x", b"file:///etc/passwd",
     b"http://user:pass@127.0.0.1/", b"javascript:1", b"http://h:port/", b"\x01", b"http://" + b"a" * 5000],
)  # fmt: skip
def test_a_redirect_to_what_is_no_address_is_that_items_failure(location):
    async def main():
        async with Server(bad=raw(b"302 Found\r\nLocation: " + location)) as server:
            _, pulls = await polled(server, ["bad", "good"])
            assert {pull.kind for pull in pulls["bad"]} == {"failed"}
            assert {pull.kind for pull in pulls["good"]} == {"value"}
            assert all(pull.reason.isprintable() and len(pull.reason) <= 200 for pull in pulls["bad"])

    plays(main)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("anywhere", [False, True])
def test_redirects_lead_to_other_servers_only_if_that_is_asked_for(status, anywhere):
    async def main():
        async with Server(x=lambda request: web.json_response({"v": 666.0})) as inside:
            away = lambda request: web.Response(status=status, headers={"Location": inside.url + "/x"})  # noqa: E731
            home = lambda request: web.Response(status=status, headers={"Location": "/other"})  # noqa: E731
            async with Server(away=away, home=home) as server:
                headers = {"Authorization": "Bearer secret"}
                _, pulls = await polled(server, ["away", "home"], anywhere=anywhere, headers=headers)
                assert {pull.value for pull in pulls["home"]} == {1.0}
                assert all(seen["Authorization"] == "Bearer secret" for _, seen in server.seen)
                if anywhere:
                    assert {pull.value for pull in pulls["away"]} == {666.0}
                    assert not any("Authorization" in seen for _, seen in inside.seen)
                else:
                    assert inside.seen == []
                    assert all("another server" in pull.reason for pull in pulls["away"])

    plays(main)


def test_redirects_end():
    async def main():
        loop = lambda request: web.Response(status=302, headers={"Location": request.path})  # noqa: E731
        async with Server(bad=loop) as server:
            _, pulls = await polled(server, ["bad", "good"], 1)
            assert "redirects" in pulls["bad"][0].reason
            assert len(server.asked("/bad")) == 6

    plays(main)


def packed(body, encoding):
    return lambda request: web.Response(body=body, headers={"Content-Encoding": encoding})


BODY = b'{"v": 3.0}'
BARE = zlib.compressobj(wbits=-15)
UNPACKED = {
    "gzip": (gzip.compress(BODY), "gzip", 3.0),
    "deflate": (zlib.compress(BODY), "deflate", 3.0),
    "bare deflate": (BARE.compress(BODY) + BARE.flush(), "deflate", 3.0),
    "bomb": (gzip.compress(b" " * 10_000_000 + BODY), "gzip", "more than"),
    "twice": (gzip.compress(gzip.compress(BODY)), "gzip, gzip", "encoding"),
    "unknown encoding": (BODY, "br", "encoding"),
    "not packed": (BODY, "gzip", "not gzip"),
    "cut": (gzip.compress(BODY)[:-12], "gzip", "not JSON"),
    "long": (b" " * 10_001, "identity", "more than"),
}


@pytest.mark.parametrize(("body", "encoding", "value"), UNPACKED.values(), ids=UNPACKED)
def test_answers_are_unpacked_as_far_as_is_allowed(body, encoding, value):
    async def main():
        async with Server(x=packed(body, encoding)) as server:
            _, pulls = await polled(server, ["x"], 1)
            if isinstance(value, float):
                assert pulls["x"][0].value == value
            else:
                assert value in pulls["x"][0].reason

    plays(main)


def test_an_endless_answer_ends_with_the_limit():
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 1000)

    async def main():
        async with Server(x=endless) as server:
            _, pulls = await polled(server, ["x", "good"], 2)
            assert "more than" in pulls["x"][0].reason
            assert pulls["good"][0].value == 1.0

    plays(main)


@pytest.mark.parametrize("key", [".", "..", "", "%2e%2e", "%2E", "%252e%252e", "../x", "a/../b", "..\\x", "%2e%2e%2fx"])
def test_a_key_that_leads_elsewhere_is_not_asked_for(key):
    async def main():
        async with Server() as server:
            endpoint = Endpoint(server.url + "/a/{k}/b", "$.v", key=("k",))
            _, pulls = await polled(server, [key, "good"], endpoint=endpoint)
            assert {path for path, _ in server.seen} == {"/a/good/b"}
            assert {pull.kind for pull in pulls[key]} == {"failed"}
            assert "cannot stand in a path" in pulls[key][0].reason
            # After ? it says nothing but itself.
            endpoint = Endpoint(server.url + "/a?of={k}", "$.v", key=("k",))
            _, pulls = await polled(server, [key], 1, endpoint=endpoint)
            assert pulls[key][0].value == 1.0

    plays(main)


def test_keys_of_several_columns_are_judged_by_what_they_make():
    endpoint = Endpoint("http://h/{a}{b}/x", "$", key=("a", "b"), parts=lambda item: item.split("|"))
    assert endpoint.refusal(".|.") is not None
    assert endpoint.refusal("|") is not None
    assert endpoint.refusal(".|a") is None
    broken = Endpoint("http://h/{a}", "$", key=("a",), parts=lambda item: [int(item)])
    assert "not one of this stream" in broken.refusal("x")


@pytest.mark.parametrize(
    "url", ["http://{k}/", "http://h:{k}/x", "http://h/#{k}", "http://u:p@h/{k}", "http://u@h/{k}"]
)
def test_endpoints_have_keys_in_their_path_or_query_and_no_passwords(url):
    with pytest.raises(ValueError, match="url must"):
        Endpoint(url, "$", key=("k",))


# -- credentials -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "header"), [("bob:hunter2", "Basic Ym9iOmh1bnRlcjI="), ("hunter2", "Bearer hunter2")]
)
def test_credentials_come_from_the_environment_and_are_seen_nowhere(secret, header, monkeypatch, caplog):
    async def main():
        monkeypatch.setenv("QUOTES_KEY", secret)
        async with Server(bad=lambda request: web.Response(status=401)) as server:
            log = MemoryLog()
            text = (
                f"CREATE STREAM quotes (k STRING, v DOUBLE) KEY (k) FROM '{server.url}/{{k}}' WITH (path = '$.v',"
                " tick = '50 ms', credentials = 'env:QUOTES_KEY')"
            )
            StatementClient(log).send(parse(text))
            StatementClient(log).send(
                parse("CREATE QUERY total AS SELECT SUM(v) FROM quotes WHERE k IN ('a', 'bad') WITHIN 1")
            )
            await StreamPoller("quotes", log, "poller").run(0.5)
            assert {headers["Authorization"] for _, headers in server.seen} == {header}
            topics = ("queries", "pulls.quotes", "updates.quotes", "models.quotes")
            everything = b"".join(entry.payload for topic in topics for entry in log.read(topic))
            told = everything.decode("latin-1") + caplog.text + render(parse(text))
            assert "hunter2" not in told
            assert header not in told
            assert any(row["kind"] == "value" for row in rows(log))

    plays(main)


def rows(log):
    return [row for entry in log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]


@pytest.mark.parametrize("secret", [None, "", "hunter2\r\nX: y", "hünter2"])
def test_credentials_that_cannot_be_used_are_said_to_be_so_without_them(secret, monkeypatch):
    monkeypatch.delenv("QUOTES_KEY", raising=False)
    if secret is not None:
        monkeypatch.setenv("QUOTES_KEY", secret)
    stream = parse(
        "CREATE STREAM q (k STRING, v DOUBLE) KEY (k) FROM 'http://h/{k}' WITH (credentials = 'env:QUOTES_KEY')"
    ).stream
    with pytest.raises(ValueError, match="QUOTES_KEY") as refused:
        authorization(stream)
    assert "nter2" not in str(refused.value)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    warm()
