"""Addresses of polled streams: no passwords in them, and no key decides which server is asked."""

import pytest

from tolerant.sql import Catalogue, StatementError, parse
from tolerant.sql.render import render

STREAM = "CREATE STREAM q (k STRING, v DOUBLE) KEY (k) FROM '{}'{}"


@pytest.mark.parametrize(
    "uri",
    [
        "http://bob:hunter2@host/{k}",
        "https://hunter2@host/{k}",
        "http://:hunter2@host:80/{k}",
        "http://bob:hunter2@[::1/{k}",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(uri):
    with pytest.raises(StatementError) as refused:
        parse(STREAM.format(uri, ""))
    assert "hunter2" not in str(refused.value)
    assert refused.value.line == 1
    if "[" not in uri:
        assert "credentials = 'env:NAME'" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        STREAM.format("HTTP://bob:hunter2@h/{k}", ""),
        STREAM.format("ftp://bob:hun/hunter2@h@host/{k}", ""),
        STREAM.format("bob:hunter2@h", ""),
        "CREATE TABLE t (k STRING) KEY (k) FROM 's3://bob:hunter2@bucket/t'",
    ],
)
def test_an_address_that_cannot_be_read_from_is_shown_without_user_and_password(text):
    with pytest.raises(StatementError, match="cannot be read from") as refused:
        parse(text, Catalogue())
    outcome = Catalogue().apply(parse(text))
    assert "cannot be read from" in outcome.message
    shown = f"{refused.value}{refused.value.found}{outcome.message}"
    assert "hunter2" not in shown
    assert "bob" not in shown
    assert "…@" in shown


@pytest.mark.parametrize("value", ["'hunter2'", "'bob:hunter2'", "'env:'", "'env:A B'", "'env:7'", "7"])
def test_credentials_name_a_variable_and_nothing_else(value):
    with pytest.raises(StatementError, match="env:NAME") as refused:
        parse(STREAM.format("http://h/{k}", f" WITH (credentials = {value})"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    ["http://{k}/x", "http://h.{k}/x", "http://h:{k}/x", "http://h:80{k}/x", "http://h/x#{k}", "https://{k}:1/{k}"],
)
def test_a_key_does_not_say_which_server(uri):
    with pytest.raises(StatementError, match=r"which server|cannot be read"):
        parse(STREAM.format(uri, ""))


def test_addresses_have_a_host():
    for uri in ("http:///{k}", "http://:80/{k}", "http://[::1/{k}"):
        with pytest.raises(StatementError, match="host"):
            parse(STREAM.format(uri, ""))


def test_options_of_pollers_are_read_and_written():
    given = " WITH (stale_after = '30 s', redirects = 'any', credentials = 'env:QUOTES_TOKEN')"
    statement = parse(STREAM.format("http://h/{k}", given))
    options = statement.stream.options
    assert (options.stale_after, options.redirects, options.credentials) == (30_000_000, "any", "env:QUOTES_TOKEN")
    assert parse(render(statement)) == statement


@pytest.mark.parametrize(
    ("option", "message"),
    [("redirects = 'some'", "same-origin, any"), ("stale_after = '1 ms'", "stale_after"), ("redirects = 1", "a name")],
)
def test_other_values_are_refused(option, message):
    with pytest.raises(StatementError, match=message):
        parse(STREAM.format("http://h/{k}", f" WITH ({option})"))
    with pytest.raises(StatementError, match="streams that are polled"):
        parse("CREATE STREAM q (k STRING, v DOUBLE) KEY (k) WITH (redirects = 'any')")
