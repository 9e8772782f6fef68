"""The demo's data: what ten hosts see of their network, and the five overlapping queries of [OJW03], Example 2.

As in the seed each host sorts its packets into measurement groups, so finely that every query is a sum of groups:
by direction, by whether the other side is inside or outside the organisation, by service, by kind of packet. An
item is the packet rate of one group at one host over the last minute. Most groups of a host never see a packet;
those that do are bursty, and differ in volume by a factor of a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tolerant.experiments.workloads import bursty_traffic
from tolerant.streams import key_text
from tolerant.traces import Trace

STREAM = "traffic"
DIRECTIONS, SCOPES = ("in", "out"), ("external", "internal")
SERVICES, PACKETS = ("web", "dns", "login", "other"), ("data", "syn")

VOLUMES = {
    ("in", "external", "web", "data"): 240.0,
    ("out", "external", "web", "data"): 160.0,
    ("in", "internal", "other", "data"): 100.0,
    ("out", "internal", "other", "data"): 100.0,
    ("in", "external", "web", "syn"): 2.0,
    ("in", "external", "login", "data"): 1.6,
    ("in", "external", "login", "syn"): 0.4,
    ("in", "internal", "login", "syn"): 0.8,
    ("out", "external", "dns", "data"): 2.4,
    ("out", "internal", "dns", "data"): 1.6,
}
"""Packets per second of the busiest host, long-run average, by group; a group that is not here has no traffic."""


@dataclass(frozen=True)
class Shape:
    """How much is generated: `ticks` of one second on `hosts` hosts, in the hands of `sources` processes.

    Bursts of a group last `on` ticks in the mean, the rests between them `off`.
    """

    ticks: int = 3_100
    hosts: int = 10
    sources: int = 3
    period: int = 10
    seed: int = 4
    on: float = 300
    off: float = 600


def statements(shape: Shape, tolerance: float = 40.0) -> tuple[str, str]:
    """The statement that makes the stream, and those that make its queries.

    As in the seed the queries on rare packets (Q1, Q3, Q4) are asked a hundred times as precisely as those on all
    traffic.
    """
    fine = tolerance / 100
    columns = "host STRING, direction STRING, scope STRING, service STRING, packet STRING, rate DOUBLE"
    stream = (
        f"CREATE STREAM {STREAM} ({columns})\n"
        f"  KEY (host, direction, scope, service, packet)\n"
        f"  WITH (tick = '1 s', period = {shape.period}, latency = '500 ms', lease = '60 s');"
    )
    queries = (
        "-- Q1: remote logins from outside\n"
        f"CREATE QUERY logins AS SELECT SUM(rate) FROM {STREAM}\n"
        f"  WHERE direction = 'in' AND scope = 'external' AND service = 'login' WITHIN {fine:g};\n"
        "-- Q2: everything that comes in\n"
        f"CREATE QUERY inbound AS SELECT SUM(rate) FROM {STREAM} WHERE direction = 'in' WITHIN {tolerance:g};\n"
        "-- Q3: SYN packets that come in\n"
        f"CREATE QUERY syns AS SELECT SUM(rate) FROM {STREAM}\n"
        f"  WHERE direction = 'in' AND packet = 'syn' WITHIN {fine:g};\n"
        "-- Q4: DNS lookups that go out\n"
        f"CREATE QUERY lookups AS SELECT SUM(rate) FROM {STREAM}\n"
        f"  WHERE direction = 'out' AND service = 'dns' WITHIN {fine:g};\n"
        "-- Q5: everything between here and the outside\n"
        f"CREATE QUERY outside AS SELECT SUM(rate) FROM {STREAM} WHERE scope = 'external' WITHIN {tolerance:g};\n"
        "-- each host by itself\n"
        f"CREATE QUERY by_host AS SELECT host, SUM(rate) FROM {STREAM}\n"
        f"  WHERE direction = 'in' GROUP BY host WITHIN {tolerance / 2:g};\n"
    )
    return stream, queries


def host_names(shape: Shape) -> list[str]:
    """The hosts, the busiest first."""
    return [f"host-{number:02}" for number in range(1, shape.hosts + 1)]


def generate(shape: Shape) -> Trace:
    """The rates of every group at every host, tick by tick. The same shape gives the same trace."""
    groups = list(product(DIRECTIONS, SCOPES, SERVICES, PACKETS))
    keys = [(host, *group) for host in host_names(shape) for group in groups]
    means = [VOLUMES.get(group, 0.0) / (rank + 1) for rank in range(shape.hosts) for group in groups]
    values = bursty_traffic(means, shape.ticks, on=shape.on, off=shape.off, seed=shape.seed)
    return Trace(tuple(key_text(key) for key in keys), values)


def share(shape: Shape, source: int) -> slice:
    """Which of the trace's items the source process of this number has: whole hosts, dealt out in blocks."""
    groups = len(DIRECTIONS) * len(SCOPES) * len(SERVICES) * len(PACKETS)
    first = source * shape.hosts // shape.sources
    last = (source + 1) * shape.hosts // shape.sources
    return slice(first * groups, last * groups)
