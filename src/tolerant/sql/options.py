"""The options of a stream or table, `WITH (name = value, …)`: what each takes, and what it may be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from urllib.parse import urlsplit

from tolerant.sql.durations import LONGEST, duration_text, read_duration
from tolerant.sql.errors import SecretShown, StatementError
from tolerant.sql.limits import MOST_STREAM_SHARDS
from tolerant.streams import CHOOSERS, POLICIES, REDIRECTS, SPLIT, Limits, Stream, StreamOptions, TableOptions

NAMES = tuple(field.name for field in fields(StreamOptions) if field.name != "latency_percentile")
"""The options that a stream has."""

TABLE_NAMES = tuple(field.name for field in fields(TableOptions))
"""The options that a table has."""

_DURATIONS = ("tick", "latency", "lease", "retention", "timeout", "stale_after")
_LIMITS = tuple(f"max_{field.name}" for field in fields(Limits))
_WHOLE = ("period", "shards", "batch", "at_once", "max_interval", *_LIMITS)
_NUMBERS = ("shrink", "per_second")
_PERCENTILE = re.compile(r"p\d{2}(\.\d{1,3})?")
_POLLED = (
    "path", "batch", "at_once", "per_second", "timeout", "max_interval", "chooser", "stale_after", "redirects",
    "credentials",
)  # fmt: skip
_LARGEST_LIMIT = 2**53
_LIMIT = "a whole number, at least 1"
_CREDENTIALS = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_NOT_POLLED = ("shrink", "policy", "shards", "shard", "latency_percentile")


def read_option(name: str, value: str | int | float) -> tuple[str, str | int | float]:
    """The field of `StreamOptions` that an option sets, and to what, from the text or number that the statement gives.

    Raises:
        StatementError: names the option, what it takes and what it was given.
    """
    if name == "latency" and isinstance(value, str) and _PERCENTILE.fullmatch(value):
        return "latency_percentile", float(value[1:])
    if name in _DURATIONS:
        if not isinstance(value, str):
            raise _wrong(name, "a duration in quotes, such as '500 ms', '10 s', '5 min' or '24 h'", value)
        try:
            return name, read_duration(value)
        except ValueError as error:
            raise StatementError(f"option {name}: {error}", expected="a duration", found=repr(value)) from None
    if name in _WHOLE and not isinstance(value, int):
        raise _wrong(name, "a whole number", value)
    if name in _NUMBERS and isinstance(value, str):
        raise _wrong(name, "a number", value)
    if name == "credentials" and not (isinstance(value, str) and _CREDENTIALS.fullmatch(value)):
        raise _no_variable()
    if name in ("policy", "shard", "path", "chooser", "redirects") and not isinstance(value, str):
        raise _wrong(name, "a name", value)
    return name, float(value) if name in _NUMBERS else value


def check_options(stream: Stream) -> None:
    """Raise StatementError, naming the option, unless the stream's options can be run with."""
    options = stream.options
    rules: list[tuple[str, str, Callable[[], bool]]] = [
        ("tick", "a duration, more than nothing", lambda: 0 < options.tick <= LONGEST),
        ("period", "a whole number of ticks, at least 1", lambda: options.period >= 1),
        ("period", "less than a hundred years in all", lambda: options.boundary <= LONGEST),
        ("latency", "a duration", lambda: 0 <= options.latency <= LONGEST),
        ("latency_percentile", "a percentage", lambda: 0 <= options.latency_percentile < 100),
        ("latency_percentile", "at most three decimals", lambda: _is_short(options.latency_percentile)),
        ("lease", "a duration, more than nothing", lambda: 0 < options.lease <= LONGEST),
        ("shrink", "a number from 0 to below 1", lambda: 0 <= options.shrink < 1),
        ("policy", f"one of {', '.join(_policies(stream))}", lambda: options.policy in _policies(stream)),
        (
            "shards",
            f"a whole number from 1 to {MOST_STREAM_SHARDS}",
            lambda: 1 <= options.shards <= MOST_STREAM_SHARDS,
        ),
        ("shard", f"a key column ({', '.join(stream.key)})", lambda: options.shard in (None, *stream.key)),
        ("retention", "a duration, more than nothing", lambda: 0 < options.retention <= LONGEST),
        ("path", "a JSON path, which begins with $", lambda: options.path.startswith("$")),
        ("batch", "a whole number, at least 1", lambda: options.batch >= 1),
        ("at_once", "a whole number, at least 1", lambda: options.at_once >= 1),
        ("per_second", "a number, 0 (any number) or more", lambda: 0 <= options.per_second < math.inf),
        ("timeout", "a duration, more than nothing", lambda: 0 < options.timeout <= LONGEST),
        ("max_interval", "a whole number of ticks, at least 1", lambda: options.max_interval >= 1),
        ("chooser", f"one of {', '.join(CHOOSERS)}", lambda: options.chooser in CHOOSERS),
        *((name, _LIMIT, lambda name=name: _is_limit(getattr(options, name))) for name in _LIMITS),
        ("stale_after", "a duration of at least a tick", lambda: options.stale_after == 0 or _ticks(options) >= 1),
        ("redirects", f"one of {', '.join(REDIRECTS)}", lambda: options.redirects in REDIRECTS),
    ]
    for name, what, holds in rules:
        if not holds():
            value = getattr(options, name)
            raise _wrong(name, what, duration_text(value) if name in _DURATIONS else value)
    if options.credentials and not _CREDENTIALS.fullmatch(options.credentials):
        raise _no_variable()
    _check_feeding(stream)
    if options.shards > 1 and options.shard is None:
        raise StatementError(
            f"option shards = {options.shards} needs option shard, a key column ({', '.join(stream.key)})",
            expected=f"shard = one of {', '.join(stream.key)}",
            hint="rows go to a shard by that column; a query must group by it or pin it",
            about=("WITH", "shards"),
        )


def check_table_options(options: TableOptions) -> None:
    """Raise StatementError, naming the option, unless the table's options are limits."""
    for name in TABLE_NAMES:
        if not _is_limit(getattr(options, name)):
            raise _wrong(name, _LIMIT, getattr(options, name))


def _is_limit(value: int) -> bool:
    return 1 <= value <= _LARGEST_LIMIT


def _is_short(percentile: float) -> bool:
    return round(percentile, 3) == percentile


def _ticks(options: StreamOptions) -> int:
    return options.stale_after // options.tick


def _no_variable() -> StatementError:
    """What was given is not repeated: it may be the password itself."""
    return SecretShown(
        "option credentials takes the name of an environment variable, as 'env:NAME'",
        expected="'env:NAME'",
        found="something else",
        hint="the variable holds user:password, or a token; set it where tolerant poll runs",
        about=("WITH", "credentials"),
    )


def _policies(stream: Stream) -> tuple[str, ...]:
    return (SPLIT, *POLICIES) if stream.networked else POLICIES


def _check_feeding(stream: Stream) -> None:
    """Refuse what makes no sense for the way in which the stream gets its values."""
    usual, options = StreamOptions(), stream.options
    elsewhere = dict.fromkeys(() if stream.polled else _POLLED, "streams that are polled, FROM 'http://…'")
    if stream.polled or stream.networked:
        elsewhere |= dict.fromkeys(_NOT_POLLED, "streams that edge sources feed")
    if stream.networked and options.policy == SPLIT:
        del elsewhere["policy"]
    for name, what in elsewhere.items():
        if getattr(options, name) != getattr(usual, name):
            raise StatementError(f"option {name} is for {what}", found=name, about=("WITH", name))
    if stream.polled:
        _check_address(stream, stream.uri or "")


def _check_address(stream: Stream, uri: str) -> None:
    """An item's address says its whole key, or each column of it; the answer to several items says whose is what."""
    try:
        split = urlsplit(uri)
        split.port  # noqa: B018 - raises where there is none
    except ValueError:
        raise SecretShown(
            "FROM is no address of a web server: its host or port cannot be read", about=("FROM",)
        ) from None
    if "@" in split.netloc:
        raise SecretShown(
            "the address of a stream must not hold a user or a password: everybody who reads the log would see it",
            expected="http://host/…",
            found="http://…@host/…",
            hint="WITH (credentials = 'env:NAME'): the environment variable NAME holds user:password, or a token",
            about=("FROM",),
        )
    if "{" in split.netloc or "{" in split.fragment:
        raise StatementError(
            f"a key says which item, not which server: no place for it in host, port or fragment, found {uri!r}",
            expected="places in the path or after ?",
            found=split.netloc if "{" in split.netloc else f"#{split.fragment}",
            hint="create a stream for each server",
            about=("FROM",),
        )
    if not split.hostname:
        raise StatementError(
            f"the address of a stream has a host: expected http://host/… , found {uri!r}", about=("FROM",)
        )
    places = set(re.findall(r"\{(\w+)\}", uri))
    wanted = "{key} or " + " and ".join(f"{{{column}}}" for column in stream.key)
    if places != {"key"} and places != set(stream.key):
        raise StatementError(
            f"an item's address has places for its key: expected {wanted} in {uri!r}",
            expected=wanted,
            found=", ".join(f"{{{place}}}" for place in sorted(places)) or "none",
            about=("FROM",),
        )
    batch, path = stream.options.batch, stream.options.path
    if batch > 1 and (len(places) > 1 or f"{{{min(places)}}}" not in path):
        raise StatementError(
            f"with batch = {batch} the path says whose value it is: expected {{{min(places)}}} in it, found {path!r}",
            expected=f"$.{{{min(places)}}}",
            found=repr(path),
            about=("WITH", "batch"),
        )


def _wrong(name: str, what: str, value: object) -> StatementError:
    return StatementError(
        f"option {name} takes {what}, found {value!r:.60}", expected=what, found=f"{value!r:.60}", about=("WITH", name)
    )
