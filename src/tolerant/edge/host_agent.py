"""`tolerant agent`: this host's own metrics as items, the network monitoring of [OJW03]."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import psutil

from tolerant.edge.source import Source
from tolerant.streams import Stream
from tolerant.transport import Log

_PERCENT = ("cpu", "memory", "disk")


class HostMetrics:
    """Reads the host's counters; a cumulative counter becomes a rate per second between two readings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        psutil.cpu_percent()  # the first call returns 0: it only starts the measurement
        self._read_at, self._counters = clock(), _counters()

    def read(self) -> dict[str, float]:
        """Return metric → value: packets, bytes and disk bytes per second since the last reading; cpu, memory and
        disk in percent.
        """
        now, counters = self._clock(), _counters()
        seconds = max(now - self._read_at, 1e-3)
        # A counter that was reset (an interface went away) gives no negative rate.
        rates = {name: max(count - self._counters.get(name, count), 0) / seconds for name, count in counters.items()}
        self._read_at, self._counters = now, counters
        return {
            **rates,
            "cpu": psutil.cpu_percent(),
            "memory": psutil.virtual_memory().percent,
            "disk": psutil.disk_usage("/").percent,
        }


def run_agent(
    log: str | Log,
    stream: str,
    interval: float = 1.0,
    seconds: float | None = None,
    *,
    host: str | None = None,
    each: Callable[[dict[str, float]], None] | None = None,
) -> int:
    """Offer the host's metrics to `stream`, keyed (host, metric), every `interval` seconds; return the number of
    readings.

    Ends after `seconds`, or never. `each` is called with every reading. The source's name is `<host>/agent`: one
    agent per host.

    Raises:
        ValueError: the stream is not keyed by two STRING columns, or the interval is not positive.
    """
    if not interval > 0:
        raise ValueError(f"interval must be more than 0 seconds, got {interval}")
    host = host or socket.gethostname()
    metrics, readings = HostMetrics(), 0
    with Source(stream, log, name=f"{host}/agent") as source:
        _check(source.stream)
        began = time.monotonic()
        end = began + (float("inf") if seconds is None else seconds)
        due = began + interval - time.time() % interval  # at the tick, where readings cost least
        while due <= end:
            time.sleep(max(0.0, due - time.monotonic()))
            reading = metrics.read()
            source.set_many([(host, metric) for metric in reading], list(reading.values()))
            readings += 1
            due += interval
            if each is not None:
                each(reading)
    return readings


def _counters() -> dict[str, int]:
    net, disk = psutil.net_io_counters(), psutil.disk_io_counters()
    counters = {
        "packets_in": net.packets_recv,
        "packets_out": net.packets_sent,
        "bytes_in": net.bytes_recv,
        "bytes_out": net.bytes_sent,
    }
    if disk is not None:  # containers often have none
        counters |= {"disk_read": disk.read_bytes, "disk_written": disk.write_bytes}
    return counters


def _check(stream: Stream) -> None:
    if stream.key_types != ("STRING", "STRING"):
        key = ", ".join(f"{name} {kind}" for name, kind in zip(stream.key, stream.key_types, strict=True))
        raise ValueError(
            f"the agent needs a stream with the key (host STRING, metric STRING); {stream.name!r} has ({key})"
        )
