"""Simulates the six delivery approaches of §2.8 on one table, its changes and its subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tolerant.notifications.identifiers import listed
from tolerant.notifications.message import Messages, finite_ends
from tolerant.notifications.notice import LIMIT
from tolerant.notifications.offline.overlay import overlay, routed
from tolerant.notifications.range_arguments import Floats, Integers, floats, intervals, one_of
from tolerant.notifications.range_min import RangeMin
from tolerant.notifications.range_subscriptions import RangeSubscriptions
from tolerant.notifications.zones import Zones

APPROACHES = ("s-un", "s-un-aggregated", "cn", "s-cn", "s-cn-active", "packed")
GATEWAYS = ("content", "random")
S_CN, S_UN, CN = 40, 16, 24
"""Bytes of a message beside its header: five numbers; a subscription and a value; an id, a place and a height."""
_AT_A_TIME = 4096


@dataclass(frozen=True)
class DeliveryRun:
    """Sums over all changes; `max_stress` is the largest number of links over which one node sent for one change.

    `effectively_ignorable`: changes whose messages reach no subscriber.
    """

    changes: int
    messages: int
    bytes: int
    max_stress: int
    affected: int
    ignorable: int
    easy: int
    difficult: int
    effectively_ignorable: int


@dataclass(frozen=True)
class _Network:
    """The subscriptions with their gateways."""

    x1s: Floats
    x2s: Floats
    gateway: Integers
    brokers: int
    fan_out: int
    header: int

    def routed(self, lines: Floats, event: Integers, payload: Integers | int) -> tuple[int, int]:
        """Return bytes on all links, and the stress."""
        tree = overlay(self.x1s, self.x2s, self.gateway, self.brokers, self.fan_out)
        links, stress = routed(tree, np.ascontiguousarray(lines), np.ascontiguousarray(event))
        return int(np.sum(links * (self.header + payload))), stress


def simulate(  # noqa: PLR0913
    rows: tuple[Any, Any, Any],
    changes: tuple[Any, Any, Any],
    subscriptions: tuple[Any, Any],
    approach: str = "s-cn",
    *,
    brokers: int = 1000,
    fan_out: int = 8,
    gateways: str = "content",
    header: int = 40,
    seed: int = 0,
) -> DeliveryRun:
    """Apply the changes to a range-min table and count messages, bytes and stress of their delivery.

    Args:
        rows: ids, xs, ys, as for `RangeMin.of`.
        changes: ids, xs, ys, as for `RangeMin.apply`.
        subscriptions: x1s, x2s.
        approach: "s-un" (one unicast for each affected subscription), "s-un-aggregated" (one for each gateway that has
            some), "cn" (the raw change to every range that holds it), "s-cn" (the messages, routed by content),
            "s-cn-active" (those that reach a subscriber), "packed" (one notice where that is smaller).
        gateways: a subscription's gateway goes by its "content" or is "random".
        header: bytes of every message beside its payload.

    >>> run = simulate(([1, 2], [3, 5], [4, 6]), ([1], [3], [9]), ([0, 4], [9, 6]), brokers=2)
    >>> run.messages, run.affected, run.bytes
    (2, 1, 80)
    """
    one_of("approach", approach, APPROACHES)
    one_of("gateways", gateways, GATEWAYS)
    for name, number, least in (("brokers", brokers, 1), ("fan_out", fan_out, 2), ("header", header, 0)):
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")
    x1s, x2s = finite_ends(*intervals(*subscriptions))
    table, watching = RangeMin.of(*rows), RangeSubscriptions()
    watching.add_many(np.arange(len(x1s)), x1s, x2s)
    places = _places(rows, changes) if approach == "cn" else None
    messages = table.apply(*changes)
    reach = watching.count_many(messages)
    if gateways == "content":
        gateway = Zones(x1s, x2s, brokers).of_many(x1s, x2s)
    else:
        gateway = np.random.default_rng(seed).integers(0, brokers, len(x1s))
    network = _Network(x1s, x2s, gateway, brokers, fan_out, header)
    sent, size, stress = _delivered(approach, messages, reach, watching, network, places)
    counters = table.counters
    reached = np.bincount(messages.change, weights=reach, minlength=1)
    messages_of = np.bincount(messages.change, minlength=1)
    return DeliveryRun(
        changes=len(listed(changes[0])),
        messages=sent,
        bytes=size,
        max_stress=stress,
        affected=int(reach.sum()),
        ignorable=counters.ignorable,
        easy=counters.easy,
        difficult=counters.difficult,
        effectively_ignorable=int(np.count_nonzero((messages_of > 0) & (reached == 0))),
    )


def _delivered(
    approach: str,
    messages: Messages,
    reach: Integers,
    watching: RangeSubscriptions,
    network: _Network,
    places: tuple[Integers, Floats] | None,
) -> tuple[int, int, int]:
    """Return messages, bytes and stress."""
    if approach == "s-un":
        most = int(np.bincount(messages.change, weights=reach, minlength=1).max())
        return int(reach.sum()), int(reach.sum()) * (network.header + S_UN), most
    if approach == "s-un-aggregated":
        return _aggregated(messages, watching, network)
    if places is not None:
        event, x = places
        lines = np.stack([x, x, x, np.full(len(x), -np.inf), np.full(len(x), np.inf)], axis=1)
        return (len(np.unique(event)), *network.routed(lines, event, CN))
    if approach == "packed":
        return _packed(messages, network)
    sent = messages.take(reach > 0) if approach == "s-cn-active" else messages
    return (len(sent), *network.routed(sent.lines, sent.change, S_CN))


def _places(rows: tuple[Any, Any, Any], changes: tuple[Any, Any, Any]) -> tuple[Integers, Floats]:
    """Return the old and new places of each change: the index of the change and x."""
    now = dict(zip(listed(rows[0]), floats("xs", rows[1]).tolist(), strict=True))
    event: list[int] = []
    places: list[float] = []
    new = zip(listed(changes[0]), floats("xs", changes[1]).tolist(), floats("ys", changes[2]).tolist(), strict=True)
    for number, (id, x, y) in enumerate(new):
        own = {now[id]} if id in now else set()
        if y == y:
            own.add(x)
            now[id] = x
        else:
            now.pop(id, None)
        places += sorted(own)
        event += [number] * len(own)
    return np.array(event, np.int64), np.array(places, np.float64)


def _aggregated(messages: Messages, watching: RangeSubscriptions, network: _Network) -> tuple[int, int, int]:
    sent = size = most = 0
    for part in _parts(messages):
        number, who = watching.matching_many(part)
        keys = part.change[number] * network.brokers + network.gateway[who]
        pairs = np.unique(keys)
        sent += len(pairs)
        size += len(pairs) * network.header + len(keys) * S_UN
        if len(pairs):
            most = max(most, int(np.unique(pairs // network.brokers, return_counts=True)[1].max()))
    return sent, size, most


def _parts(messages: Messages) -> Iterator[Messages]:
    """Return the messages, some thousand at a time, those of a change together, to limit the pairs in memory."""
    begin = 0
    while begin < len(messages):
        end = min(begin + _AT_A_TIME, len(messages))
        end = int(np.searchsorted(messages.change, messages.change[end - 1], "right"))
        yield messages.take(np.arange(begin, end))
        begin = end


def _packed(messages: Messages, network: _Network) -> tuple[int, int, int]:
    """Return the figures of changes in place of 2 to LIMIT messages as one notice, the others as they are."""
    if not len(messages):
        return 0, 0, 0
    lines, change = messages.lines, messages.change
    starts = np.flatnonzero(np.append(True, change[1:] != change[:-1]))
    k = np.diff(np.append(starts, len(lines)))
    x = lines[starts, 1]
    about = np.repeat(x, k)
    in_place = np.logical_and.reduceat((lines[:, 1] == about) | (lines[:, 2] == about), starts)
    whole = in_place & (k > 1) & (k <= LIMIT)
    notices = np.stack(
        [lines[starts, 0], x, x, np.minimum.reduceat(lines[:, 3], starts), np.maximum.reduceat(lines[:, 4], starts)],
        axis=1,
    )[whole]
    single = ~np.repeat(whole, k)
    sent = np.concatenate([notices, lines[single]])
    event = np.concatenate([change[starts[whole]], change[single]])
    payload = np.concatenate([8 * (3 + 2 * k[whole]), np.full(int(single.sum()), S_CN)])
    order = np.argsort(event, kind="stable")
    return (len(sent), *network.routed(sent[order], event[order], payload[order]))
