"""Keeps sqlglot's log messages about our statements off the terminal: they repeat the text, whatever it holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SILENT = ContextVar("sqlglot is silent", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _SILENT.get())


@contextmanager
def silent_sqlglot() -> Iterator[None]:
    """Drop what sqlglot logs in this thread; other users of sqlglot in the process keep their messages."""
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)
