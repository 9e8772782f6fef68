"""Why an answer is not settled, in one line: which sources are silent and since when, which items never sent, whether a
tightening is under way.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tolerant.cli.figures import StreamFigures, stream_figures
from tolerant.cli.moments import moment
from tolerant.client import standing
from tolerant.client.liveness import outage_text, pipeline_outage
from tolerant.sql import AggregateSelect, StatementError
from tolerant.sql.membership import Keys, members
from tolerant.sql.naming import named_items
from tolerant.streams import Stream
from tolerant.transport import Log

SHOWN = 3
"""Sources or items that are named; the rest is counted."""


def unsettled_reason(log: Log, query: str) -> str:
    """Why answers of a query are not settled, as far as its pipeline has reported; '' if nothing is known to be wrong.

    A pipeline reports once per period, so the reason may be a period old.
    """
    catalogue = standing(log)
    definition = catalogue.queries.get(query)
    if definition is None or not isinstance(definition.select, AggregateSelect):
        return ""
    stream = catalogue.streams[definition.select.stream]
    outage = pipeline_outage(log, stream.name)
    if outage is not None:
        return outage_text(outage)
    figures = stream_figures(log, stream.name)
    if figures is None:
        return "the pipeline has not reported yet"
    if stream.polled or stream.networked:
        return _query_flags(figures, query)
    return reason_of(figures, stream, definition.select)


def reason_of(figures: StreamFigures, stream: Stream, select: AggregateSelect) -> str:
    """Why a bounded aggregate is not settled, by what its pipeline reported."""
    items = figures.items
    chosen = np.zeros(len(items), np.bool_)
    for weights in members(select, Keys(stream, items.key)).values():
        chosen[list(weights)] = True
    parts = [_silent(figures, chosen), _never_sent(figures, stream, select), _tightening(figures, chosen)]
    return "; ".join(part for part in parts if part)


def _silent(figures: StreamFigures, chosen: NDArray[np.bool_]) -> str:
    """The sources of stale items, and since when nothing was heard of them."""
    items = figures.items
    stale = Counter(items.source[index] for index in np.flatnonzero(chosen) if items.stale[index])
    heard = {name: source["heard"] for summary in figures.summaries for name, source in summary["sources"].items()}
    texts = [
        f"source {name} not heard since {moment(heard[name])} ({count:,} item{'s' if count > 1 else ''})"
        if name in heard
        else f"{count:,} items without a source"
        for name, count in stale.most_common(SHOWN)
    ]
    if len(stale) > SHOWN:
        texts.append(f"{len(stale) - SHOWN:,} more sources")
    return ", ".join(texts)


def _never_sent(figures: StreamFigures, stream: Stream, select: AggregateSelect) -> str:
    """The items that the query names and that never sent a value."""
    try:
        missing = sorted(set(named_items(select, stream)) - set(figures.items.key))
    except StatementError:
        return ""  # it names none: it is about whatever items there are
    if not missing:
        return "" if len(figures.items) else "no source has sent a value yet"
    more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
    return f"no value yet of {', '.join(missing[:SHOWN])}{more}"


def _tightening(figures: StreamFigures, chosen: NDArray[np.bool_]) -> str:
    """The items whose narrower width is granted but not confirmed."""
    items = figures.items
    stale = np.array(items.stale, np.bool_)
    waiting = int((chosen & ~stale & (items.believed > items.width * (1 + 1e-9))).sum())
    total = int(chosen.sum())
    return f"tightening under way: {waiting:,} of {total:,} items have not confirmed their width" if waiting else ""


def _query_flags(figures: StreamFigures, query: str) -> str:
    """What the summaries of a polled stream or network say of a query."""
    flags: Counter[str] = Counter()
    for summary in figures.summaries:
        for flag in ("stale", "settling"):
            flags[flag] += int(summary.get("queries", {}).get(query, {}).get(flag, 0))
    return ", ".join(f"{count:,} group{'s' if count > 1 else ''} {flag}" for flag, count in flags.items() if count)
