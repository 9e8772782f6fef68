"""Says in a line why a pipeline failed: Spark reports a hundred lines of two languages, one inside the other."""

from __future__ import annotations

import re

_LONGEST = 500
# The last line of a Python stack trace: an exception that is not one of PySpark's own wrappers.
_PYTHON = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|[a-z])): (\S.*)$", re.MULTILINE
)
_WRAPPERS = (
    "Py4JJavaError",
    "Py4JError",
    "SparkException",
    "PythonException",
    "StreamingQueryException",
    "BatchFailed",
)
_JAVA = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+): (\S.*)$", re.MULTILINE)


def reason(error: object) -> str:
    """What went wrong first, in one line: the exception of our own code if there is one, else the innermost of Java's.

    >>> reason("Failed\\nTraceback (most recent call last):\\n  File x\\nValueError: no such item\\n\\tat java.lang")
    'ValueError: no such item'
    >>> reason(OSError("disk full"))
    'disk full'
    """
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        errors = [f"{kind}: {what}" for kind, what in _PYTHON.findall(text) if kind not in _WRAPPERS]
        if errors:
            return errors[-1][:_LONGEST]
    caused = [f"{kind}: {what}" for kind, what in _JAVA.findall(text) if kind not in _WRAPPERS]
    if caused:
        return caused[-1][:_LONGEST]
    return (text.splitlines() or [type(error).__name__])[0][:_LONGEST]
