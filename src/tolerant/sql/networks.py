"""The network of a stream that aggregators answer for: read from its file when the stream is created, and what queries
over it may ask.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tolerant.planning import Network, network_text, parse_network, read_network
from tolerant.queries import Aggregate
from tolerant.sql.errors import StatementError
from tolerant.sql.membership import Keys, instance_name, members
from tolerant.sql.statements import AggregateSelect, CreateStream
from tolerant.sql.types import is_value
from tolerant.streams import Stream, key_parts


def with_network(statement: CreateStream, base_dir: Path | str = ".") -> CreateStream:
    """The statement with the network that its file holds; as it is if it has none. Paths start at `base_dir`.

    Raises:
        StatementError: the file cannot be used; names the file, the aggregator and the item.
    """
    stream = statement.stream
    if not stream.networked or stream.uri is None:
        return statement
    path = Path(base_dir) / stream.uri
    try:
        network = parse_network(path.read_text(), path.name)
    except FileNotFoundError:
        raise StatementError(f"there is no file {path.name}", expected="a file", found=f"nothing at {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"{path.name} cannot be read: {error!s:.200}", found=path.name) from None
    except ValueError as error:
        raise StatementError(str(error), found=path.name) from None
    filled = replace(stream, network=network_text(network))
    check_network(filled)
    return replace(statement, stream=filled)


@lru_cache(maxsize=16)
def _read(text: str) -> Network:
    return read_network(text)


def network_of(stream: Stream) -> Network:
    """The network of a stream that has one.

    Raises:
        ValueError: it has none, or one that cannot be read.
    """
    if stream.network is None:
        raise ValueError(f"stream {stream.name} has no network")
    return _read(stream.network)


def check_network(stream: Stream) -> None:
    """Raise StatementError unless the network can be read and its items are keys of the stream."""
    if stream.network is None:
        return
    if not stream.networked:
        raise StatementError(f"stream {stream.name} has a network, but is not read from one")
    try:
        network = network_of(stream)
    except ValueError as error:
        raise StatementError(f"the network of {stream.name} cannot be read: {error}") from None
    for item in network.items:
        wrong = _wrong_key(item, stream)
        if wrong:
            raise StatementError(
                f"{stream.uri}: item {item!r} is no key of {stream.name}: {wrong}",
                expected=f"a key ({', '.join(stream.key)})",
                found=repr(item),
                hint='a key of several columns is written as JSON: "[\\"web-1\\",\\"in\\"]"'
                if len(stream.key) > 1
                else "",
            )


def _wrong_key(item: str, stream: Stream) -> str:
    try:
        parts = key_parts(item, stream.key_types)
    except (ValueError, json.JSONDecodeError) as error:
        return str(error)
    for part, type_name, column in zip(parts, stream.key_types, stream.key, strict=True):
        if not is_value(type_name, part):
            return f"column {column} is {type_name}, found {part!r}"
    return ""


def aggregates(name: str, select: AggregateSelect, stream: Stream) -> list[Aggregate]:
    """A query over the network's items as its core takes it, one aggregate a group."""
    texts = list(network_of(stream).items)
    return [
        Aggregate(
            instance_name(name, group),
            select.fn,
            {texts[index]: weight for index, weight in weights.items()},
            select.within,
        )
        for group, weights in members(select, Keys(stream, texts)).items()
    ]


def check_query(name: str, select: AggregateSelect, stream: Stream) -> None:
    """Raise StatementError unless the whole network could answer the query within its tolerance."""
    if select.fn == "count":
        raise StatementError(
            f"a network's items are those of {stream.uri}: there is nothing to count",
            expected="SUM, AVG, MIN or MAX",
            found="COUNT",
            about=("SELECT", "COUNT"),
        )
    if stream.network is None or (select.weight is not None and select.weight.values is None):
        return  # before files are read; looked at again when the statement is sent
    network, groups = network_of(stream), aggregates(name, select, stream)
    if not groups:
        raise StatementError(
            f"no item of {stream.uri} is in the query: it serves {', '.join(network.items[:5])}"
            + (", …" if len(network.items) > 5 else ""),
            about=("FROM", stream.name),
        )
    tightest = max(tightest_of(group, network) for group in groups)
    if select.within <= 0 or tightest > select.within * (1 + 1e-12):
        wanted = f"WITHIN {tightest:.6g} or more" if tightest > 0 else "WITHIN a number above 0"
        raise StatementError(
            f"no plan over {stream.uri} keeps WITHIN {select.within:g}: the copies at the aggregators may be "
            f"{tightest:.6g} off",
            expected=wanted,
            found=f"WITHIN {select.within:g}",
            hint=f"ask for {wanted}, or give aggregators tighter bounds",
            about=("WITHIN",),
        )


def tightest_of(query: Aggregate, network: Network) -> float:
    """The tightest bound that any plan keeps."""
    off = [abs(weight) * network.tightest(item) for item, weight in query.weights.items()]
    if query.fn in ("min", "max"):
        return max(off, default=0.0)
    return math.fsum(off) / (len(off) if query.fn == "avg" and off else 1)
