"""Why an answer is not settled, in one line: which items two sources claim, which sources are silent and since when,
which items never sent, whether a tightening is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tolerant.cli.figures import StreamFigures, stream_figures
from tolerant.cli.moments import moment
from tolerant.client import load_catalogue
from tolerant.client.liveness import Outage, outage_text, pipeline_outage
from tolerant.queries import Answer
from tolerant.sql import AggregateSelect, StatementError
from tolerant.sql.membership import Keys, members
from tolerant.sql.named_items import named_items
from tolerant.streams import Stream
from tolerant.transport import Log
from tolerant.transport.conflicts import Conflict, open_conflicts
from tolerant.transport.heartbeats import latest_heartbeat
from tolerant.transport.records import skipping

SHOWN = 3
"""Sources or items that are named; the rest is counted."""


def unsettled_reason(log: Log, query: str) -> str:
    """Why answers of a query are not settled, as far as its pipeline has reported; '' if nothing is known to be wrong.

    A pipeline reports once per period, so the reason may be a period old.
    """
    catalogue = load_catalogue(log)
    definition = catalogue.queries.get(query)
    if definition is None:
        return outage_text(Outage(query, 0, dropped=True))
    select = definition.select.aggregate
    if select is None:
        return ""
    stream = catalogue.streams[select.stream]
    outage = pipeline_outage(log, stream.name)
    if outage is not None:
        return outage_text(outage)
    figures = stream_figures(log, stream.name)
    if figures is None:
        runs = latest_heartbeat(log, stream.name) is not None
        return "the pipeline has not reported yet" if runs else "no pipeline has run it yet"
    with skipping(f"the status of {stream.name}"):
        if stream.polled or stream.networked:
            return _elsewhere_reason(figures, stream, query, select)
        return reason_of(figures, stream, select, open_conflicts(log, stream.name))
    return "what its pipeline reported cannot be read"


def flags_reason(answers: Sequence[Answer]) -> str:
    """Why these answers are not settled, by what they say themselves: for the time until the pipeline reports more.

    >>> flags_reason([Answer("q", 0, 1.0, 2.0, 3.0, settling=True)]), flags_reason([])
    ('a tightening is under way', 'no answer has been published yet')
    """
    if not answers:
        return "no answer has been published yet"
    flags = {
        "its pipeline is out of service": any(answer.no_pipeline_since is not None for answer in answers),
        "some source is silent": any(answer.stale and answer.no_pipeline_since is None for answer in answers),
        "it is being learnt how items move": any(answer.learning for answer in answers),
        "a tightening is under way": any(answer.settling and not answer.learning for answer in answers),
    }
    return ", ".join(reason for reason, holds in flags.items() if holds)


def reason_of(figures: StreamFigures, stream: Stream, select: AggregateSelect, conflicts: Sequence[Conflict]) -> str:
    """Why a bounded aggregate is not settled, by what its pipeline reported."""
    items = figures.items
    chosen = np.zeros(len(items), np.bool_)
    for weights in members(select, Keys(stream, items.key)).values():
        chosen[list(weights)] = True
    disputed = {conflict.item: conflict for conflict in conflicts}
    claimed = np.array([key in disputed for key in items.key], np.bool_) & chosen
    parts = [_claimed([disputed[items.key[index]] for index in np.flatnonzero(claimed)])]
    parts += [_silent(figures, chosen & ~claimed), _never_sent(figures, stream, select), _tightening(figures, chosen)]
    return "; ".join(part for part in parts if part)


def _claimed(conflicts: Sequence[Conflict]) -> str:
    """The items that two sources claim."""
    texts = [
        f"item {conflict.item} is claimed by sources {conflict.owner} and {conflict.other}"
        for conflict in conflicts[:SHOWN]
    ]
    return ", ".join(texts) + (f" and {len(conflicts) - SHOWN:,} more" if len(conflicts) > SHOWN else "")


def _silent(figures: StreamFigures, chosen: NDArray[np.bool_]) -> str:
    """The sources of stale items, and since when nothing was heard of them."""
    items = figures.items
    stale = Counter(items.source[index] for index in np.flatnonzero(chosen) if items.stale[index])
    last_heard = {name: source["heard"] for summary in figures.summaries for name, source in summary["sources"].items()}
    texts = [
        f"source {name} not heard since {moment(last_heard[name])} ({count:,} item{'s' if count > 1 else ''})"
        if name in last_heard
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


def _elsewhere_reason(figures: StreamFigures, stream: Stream, query: str, select: AggregateSelect) -> str:
    """Why a query over a polled stream or a network is not settled: who is silent, which items cannot be had."""
    flags: Counter[str] = Counter()
    for summary in figures.summaries:
        for flag in ("stale", "learning", "settling"):
            flags[flag] += int(summary.get("queries", {}).get(query, {}).get(flag, 0))
    if not flags.total():
        return ""
    what = "poller" if stream.polled else "aggregator"
    silent = [
        f"{what} {name} not heard since {moment(source['heard'])}"
        for summary in figures.summaries
        for name, source in summary["sources"].items()
        if source["stale"]
    ]
    parts = [_shortened(silent), _not_to_be_had(figures, stream, select)]
    known = "; ".join(part for part in parts if part)
    if known:
        return known
    return ", ".join(f"{count:,} group{'s' if count > 1 else ''} {flag}" for flag, count in flags.items() if count)


def _not_to_be_had(figures: StreamFigures, stream: Stream, select: AggregateSelect) -> str:
    """The items of a polled query whose pulls fail, and why; those that no pull has given a value yet."""
    if figures.pulled is None:
        return ""
    rows = figures.pulled.to_pylist()
    chosen = {
        index for weights in members(select, Keys(stream, [row["key"] for row in rows])).values() for index in weights
    }
    failing = [rows[index] for index in sorted(chosen) if rows[index]["failures"]]
    texts = [f"{row['key']} cannot be had{': ' if row['reason'] else ''}{row['reason']}" for row in failing]
    never = [row["key"] for index, row in enumerate(rows) if index in chosen and row["age"] < 0 and row not in failing]
    texts += [f"no value yet of {key}" for key in never]
    return _shortened(texts)


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more
