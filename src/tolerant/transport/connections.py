"""Connections to one SQLite file, for any number of threads, that a fork does not break.

SQLite keeps the locks of a file in the memory of the process. A fork copies that memory but not the locks, so a child
that inherits an open file believes in locks that it does not hold. Therefore: before a fork every connection of this
process is closed (a transaction under way is waited for), and both sides open new ones when they next need one.
When the interpreter ends, idle connections are closed as they are by `close`.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tolerant.transport.files import LogConnection

_FORK_WAIT = 60.0  # seconds; longer than any transaction may wait for another process


class Connections:
    """A pool: each `use` has a connection of its own, opened by `connect` when none is idle, closed by `disconnect`."""

    def __init__(self, connect: Callable[[], LogConnection], disconnect: Callable[[LogConnection], None]) -> None:
        self._connect, self._disconnect = connect, disconnect
        self._condition = threading.Condition()
        self._idle: list[LogConnection] = []
        self._used = 0
        self._forking = False
        self._closed = False
        _POOLS.add(self)

    @contextmanager
    def use(self) -> Iterator[LogConnection]:
        """A connection that nobody else uses meanwhile."""
        with self._condition:
            self._condition.wait_for(lambda: not self._forking)
            if self._closed:
                raise sqlite3.ProgrammingError("closed")
            self._used += 1
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._connect()
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: LogConnection | None) -> None:
        with self._condition:
            self._used -= 1
            if connection is not None:
                if self._closed or connection.in_transaction:
                    self._disconnect(connection)  # which rolls back
                else:
                    self._idle.append(connection)
            self._condition.notify_all()

    def close(self) -> None:
        """Close what is idle now, and the rest when it is returned."""
        with self._condition:
            self._closed = True
            self._close_idle()
        _POOLS.discard(self)

    def close_idle(self) -> None:
        """Close what nobody uses now; it is opened again when somebody needs it."""
        with self._condition:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._disconnect(self._idle.pop())

    def before_fork(self) -> None:
        """Let nobody begin, wait for those under way, close everything."""
        self._condition.acquire()
        self._forking = True
        self._condition.wait_for(lambda: not self._used, _FORK_WAIT)
        self._close_idle()
        self._condition.release()

    def after_fork_in_parent(self) -> None:
        """Let threads use connections again."""
        with self._condition:
            self._forking = False
            self._condition.notify_all()

    def after_fork_in_child(self) -> None:
        """Reset the pool: the other threads that waited or worked here are not in this process."""
        self._condition = threading.Condition()
        self._used = 0
        self._forking = False

    def __del__(self) -> None:
        self._close_idle()


_POOLS: weakref.WeakSet[Connections] = weakref.WeakSet()


def _before() -> None:
    for pool in list(_POOLS):
        pool.before_fork()


def _after_in_parent() -> None:
    for pool in list(_POOLS):
        pool.after_fork_in_parent()


def _after_in_child() -> None:
    for pool in list(_POOLS):
        pool.after_fork_in_child()


def _at_exit() -> None:
    for pool in list(_POOLS):
        pool.close_idle()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
