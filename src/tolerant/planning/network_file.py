"""`network.toml`: the aggregators of a network, their items and bounds, and their parents, as text.

[aggregators.edge]
items = { S1 = 0.5, S3 = 0.2 }       # item = how far its copy may be from the source

[aggregators.shop]
parent = "edge"                      # optional: items that it serves come from there
within = 1.0                         # one bound for a list of items
items = ["S1", "S3"]
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from tolerant.planning.aggregator_network import Network

_KEYS = ("items", "parent", "within")


def parse_network(text: str, name: str = "network.toml") -> Network:
    """Return the network that a file's text describes; `name` is what errors call the file.

    >>> parse_network("[aggregators.D1]\\nitems = {S1 = 0.5}").bounds["D1"]["S1"]
    0.5

    Raises:
        ValueError: saying where, what was expected and what came.
    """
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not TOML: {error}") from None
    _refuse_unknown(name, "the file", read, ("aggregators",))
    tables = read.get("aggregators")
    if not isinstance(tables, dict) or not tables:
        raise ValueError(f"{name} must have at least one table [aggregators.NAME], got {_shown(tables)}")
    bounds = {aggregator: _items(f"{name}, aggregator {aggregator!r}", table) for aggregator, table in tables.items()}
    parents = {
        aggregator: _parent(f"{name}, aggregator {aggregator!r}", table, tables)
        for aggregator, table in tables.items()
        if "parent" in table
    }
    try:
        return Network(bounds, parents)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def network_text(network: Network) -> str:
    """Return the network as one line of JSON, the same for equivalent files; `read_network` reads it.

    >>> network_text(Network({"D1": {"S1": 0.5}}))
    '{"bounds":{"D1":{"S1":0.5}},"parents":{}}'
    """
    bounds = {name: dict(served) for name, served in network.bounds.items()}
    return json.dumps({"bounds": bounds, "parents": dict(network.parents)}, separators=(",", ":"), ensure_ascii=False)


def read_network(text: str) -> Network:
    """Return the network that `network_text` wrote.

    Raises:
        ValueError: the text is not from `network_text`.
    """
    try:
        read = json.loads(text)
        return Network(read["bounds"], read["parents"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a network: {error!r}") from None


def _items(where: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table with `items`, got {_shown(table)}")
    _refuse_unknown(where, "the table", table, _KEYS)
    items = table.get("items")
    if isinstance(items, dict):
        if "within" in table:
            raise ValueError(f"{where}: `within` is for a list of items; here every item has its own")
        served: dict[str, Any] = items
    elif isinstance(items, list):
        served = dict.fromkeys(_names(where, items), _within(where, table))
    else:
        raise ValueError(f"{where}: `items` must be a table {{item = within}} or a list of items, got {_shown(items)}")
    if not served:
        raise ValueError(f"{where}: `items` must have at least one item")
    for item, within in served.items():
        if isinstance(within, bool) or not isinstance(within, int | float):
            raise ValueError(
                f"{where}, item {item!r}: the bound must be a number, got {_shown(within)} "
                "(does the name have a dot? then quote it)"
            )
    return served


def _names(where: str, items: list[Any]) -> list[str]:
    for item in items:
        if not isinstance(item, str):
            raise ValueError(f"{where}: a list of `items` must hold names, got {_shown(item)}")
        if items.count(item) > 1:
            raise ValueError(f"{where}: item {item!r} is listed twice")
    return items


def _within(where: str, table: Mapping[str, Any]) -> Any:
    if "within" not in table:
        raise ValueError(f"{where}: a list of `items` needs `within`, the bound of them all")
    return table["within"]


def _parent(where: str, table: Mapping[str, Any], known: Iterable[str]) -> str:
    parent = table["parent"]
    if not isinstance(parent, str):
        raise ValueError(f"{where}: `parent` must be the name of an aggregator, got {_shown(parent)}")
    if parent not in known:
        raise ValueError(f"{where}: no aggregator is called {parent!r}{_meant(parent, known)}")
    return parent


def _refuse_unknown(where: str, what: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(
                f"{where}: {what} may have {', '.join(f'`{k}`' for k in known)}, got `{key}`{_meant(key, known)}"
            )


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)
