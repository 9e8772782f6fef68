"""The demo's source processes, and the conductor who keeps them in one trace time.

Each process has some hosts and a `Source` of its own, as it would beside real data. They share a time that is not
the wall clock: the conductor says how far to play, each plays its ticks and sends what its filters let through, and
says when it is done. Then the conductor lets the log's clock pass that time. An hour of events fits in a minute so,
and nothing is ever late.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from tolerant.demo.traffic import STREAM, Shape, generate, share
from tolerant.edge import Source
from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import updates_topic

BEGIN = 1_000_000_000 * SECOND
"""The event time of tick 0: a boundary, and the same in every run."""
TICK = SECOND
_PATIENCE = 60.0  # seconds that a source may take for one step before something must be wrong


def time_of(tick: int) -> int:
    """The event time of a tick, microseconds."""
    return BEGIN + tick * TICK


def play(connection: Connection, log: str, shape: Shape, number: int) -> None:
    """A source process: plays its share of the trace up to each tick that it is told, until it is told None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the conductor's business
    trace, mine = generate(shape), share(shape, number)
    values, now, played = trace.values[:, mine], BEGIN, 0
    with Source(STREAM, log, name=f"hosts-{number + 1}", clock=lambda: now) as source:
        handles = source.register(trace.items[mine])
        connection.send(len(handles))
        while (last := connection.recv()) is not None:
            for tick in range(played, last + 1):
                now = time_of(tick)
                source.set_many(handles, values[tick])
            played = last + 1
            now = time_of(played) - 1
            source.advance(now)
            connection.send(now)


class TraceClock:
    """Starts the source processes, and moves their time and the log's clock forward together."""

    def __init__(self, log: Log, shape: Shape) -> None:
        self._log = log
        self._shape = shape
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []

    def start(self) -> None:
        """Start the processes; they get ready by themselves."""
        context = mp.get_context("spawn")  # this process has threads and a JVM: it cannot be forked
        for number in range(self._shape.sources):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=play, args=(theirs, self._log.uri, self._shape, number), name=f"source {number}", daemon=True
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    def ready(self) -> int:
        """Wait until every process is ready; how many items they have."""
        return sum(self._hear(number) for number in range(len(self._connections)))

    def play_to(self, tick: int) -> int:
        """Play up to and including this tick, then let the clock pass; the time that the clock shows now."""
        for connection in self._connections:
            connection.send(tick)
        for number in range(len(self._connections)):
            self._hear(number)
        now = time_of(tick + 1) - 1
        self.clock(now)
        return now

    def clock(self, now: int) -> None:
        """Let the log's clock show `now`."""
        self._log.append(updates_topic(STREAM), clock_batch(now))

    def stop(self) -> None:
        """End the processes, cleanly where they still listen."""
        for connection in self._connections:
            try:
                connection.send(None)
            except OSError:
                continue  # it has died, which `play_to` has said
        for process in self._processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
                process.join()
        for connection in self._connections:
            connection.close()

    def _hear(self, number: int) -> int:
        connection, process = self._connections[number], self._processes[number]
        try:
            if connection.poll(_PATIENCE):
                return int(connection.recv())
        except (EOFError, OSError):
            pass
        what = f"ended with exit code {process.exitcode}" if process.exitcode is not None else "does not answer"
        raise RuntimeError(f"source process {number + 1} {what}")
