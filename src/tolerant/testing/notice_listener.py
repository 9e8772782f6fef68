"""What notices come to for a subscription, worked out the slow way: one row after the other, one range at a time.

It shares no code with the client but the reading of packed rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tolerant.kinds.notices.select import RangeAggregateSelect
from tolerant.testing.table_truth import Span
from tolerant.transport.log import Entry
from tolerant.transport.rows import unpack

Row = dict[str, Any]


def answers_heard(select: RangeAggregateSelect, entries: Iterable[Entry], span: Span) -> list[Any]:
    """(step, at, answer) whenever the notices change the answer of a subscription in its time."""
    heard: list[Any] = []
    answer, count, newest = span.first, len(span.values), span.begin
    total = sum(map(Fraction, span.values), Fraction())
    for entry in entries:
        of_step: dict[int, list[Row]] = {}
        for row in unpack(entry.payload).to_pylist():
            of_step.setdefault(row["step"], []).append(row)
        for step, notices in of_step.items():
            if step <= newest or (span.end is not None and step > span.end):
                continue
            now, newest = answer, step
            for row in notices:
                if "old_x" in row:
                    count, total = _added(row, span, count, total)
                    now = _total(select.fn, count, total)
                elif _concerned(row, span):
                    now = _taken(select.fn, row, span, now)
            if now != answer:
                answer = now
                heard.append((step, notices[0]["at"], answer))
    return heard


def _concerned(row: Row, span: Span) -> bool:
    return bool(row["outer_low"] < span.low <= row["inner_low"] and row["inner_high"] <= span.high < row["outer_high"])


def _taken(fn: str, row: Row, span: Span, answer: Any) -> Any:
    if fn == "distinct":
        return answer - {row["value"]} if row["gone"] else answer | {row["value"]}
    heights = [row["value"], *(point["y"] for point in row["points"] if span.low <= point["x"] <= span.high)]
    best = min(heights) if fn == "min" else max(heights)
    return None if best in (float("inf"), float("-inf")) else best


def _added(row: Row, span: Span, count: int, total: Fraction) -> tuple[int, Fraction]:
    for x, y, sign in (("old_x", "old_y", -1), ("new_x", "new_y", 1)):
        if row[x] is not None and span.low <= row[x] <= span.high:
            count, total = count + sign, total + sign * Fraction(row.get(y) or 0)
    return count, total


def _total(fn: str, count: int, total: Fraction) -> Any:
    if fn == "count":
        return count
    return None if not count else float(total if fn == "sum" else total / count)
