"""What the pipelines say about themselves in `status.<stream>`, read for `status`, `explain` and `watch`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.cli.reporting import CommandError
from tolerant.client import load_catalogue
from tolerant.filters.status_view import FACTORS
from tolerant.sql import AggregateSelect
from tolerant.sql.durations import duration_text
from tolerant.sql.membership import Keys, members
from tolerant.sql.named_items import named_items
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log, rows
from tolerant.transport.records import read_json, records_of, skipping
from tolerant.transport.topics import TopicKind, status_topic

MESSAGES = {
    "updates": "update", "grants": "grants", "acks": "ack", "hellos": "hello", "heartbeats": "heartbeat",
    "removals": "gone",
    "sum_offers": "forms", "sum_requests": "form_request",
}  # fmt: skip
"""The kinds of rows on the wire that count as messages, and what the summaries call them."""


@dataclass(frozen=True)
class Items:
    """The items of a stream over all its shards, in columns of one length."""

    key: list[str]
    width: NDArray[np.float64]
    believed: NDArray[np.float64]
    updates_per_second: NDArray[np.float64]
    burden: NDArray[np.float64]
    source: list[str]
    stale: list[bool]
    elsewhere: NDArray[np.float64]
    """By how much each would send more at `filters.status_view.FACTORS` times its width, float64[items, factors]."""

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class SumFigures:
    """A sum that a source sends in place of its items in a query."""

    query: str
    group: str
    items: tuple[str, ...]
    source: str
    width: float
    updates_per_second: float
    burden: float
    stale: bool
    elsewhere: tuple[float, ...]


def late_sources(summaries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By source: late rows so far, and the longest delay of one in microseconds; most rows first."""
    sources: dict[str, tuple[int, int]] = {}
    for summary in summaries:
        for name, (count, longest) in summary.get("late_sources", {}).items():
            before = sources.get(name, (0, 0))
            sources[name] = (before[0] + count, max(before[1], longest))
    return dict(sorted(sources.items(), key=lambda source: -source[1][0]))


@dataclass(frozen=True)
class StreamFigures:
    """A stream's summaries, one a shard, and its items."""

    stream: str
    summaries: tuple[Mapping[str, Any], ...]
    items: Items
    sums: tuple[SumFigures, ...] = ()
    pulled: pa.RecordBatch | None = None
    """Of a polled stream: its items, with the columns that `kinds.polled.outputs` gives them."""

    def total(self, name: str) -> int:
        """A count, over all shards."""
        return int(sum(summary.get(name, 0) for summary in self.summaries))

    @property
    def messages(self) -> dict[str, int]:
        """Rows on the wire so far, in both directions, by kind."""
        return {kind: self.total(counted) for kind, counted in MESSAGES.items()}

    @property
    def saved(self) -> float | None:
        """The share of messages saved so far, over the items that queries need: all that were sent against a reading
        per item and tick. None before the first period, and where the pipeline does not count readings.
        """
        readings = self.total("readings")
        return max(0.0, 1 - sum(self.messages.values()) / readings) if readings else None

    @property
    def late_sources(self) -> dict[str, tuple[int, int]]:
        """By source: late rows so far, and the longest delay of one in microseconds; most rows first."""
        return late_sources(self.summaries)

    @property
    def watermark(self) -> int | None:
        """The event time that every shard has reached, microseconds."""
        return min((s["watermark"] for s in self.summaries if s["watermark"] is not None), default=None)


@dataclass(frozen=True)
class Rate:
    """What rates are shown per: a unit of so many seconds."""

    seconds: float
    unit: str


def rate_of(tick: int) -> Rate:
    """Per second, or per tick where a tick is longer: an item sends at most one update in it.

    >>> rate_of(SECOND), rate_of(300 * SECOND)
    (Rate(seconds=1.0, unit='second'), Rate(seconds=300.0, unit='tick (5 min)'))
    """
    return Rate(1.0, "second") if tick <= SECOND else Rate(tick / SECOND, f"tick ({duration_text(tick)})")


@dataclass(frozen=True)
class MessageRates:
    """Updates per second that some items send now, and that they would send if every reading were sent."""

    items: int
    per_second: float
    unfiltered: float
    what: str = "updates"

    @property
    def saved(self) -> float:
        """The share of readings that need not be sent, 0 … 1."""
        return max(0.0, 1 - self.per_second / self.unfiltered) if self.unfiltered else 0.0

    def text(self) -> str:
        """The figures in a sentence."""
        rate = rate_of(round(self.items * SECOND / self.unfiltered) if self.unfiltered else SECOND)
        return (
            f"{self.per_second * rate.seconds:,.2f} {self.what} per {rate.unit} from {self.items:,} items; "
            f"every reading {'pulled' if self.what == 'pulls' else 'sent'} would be "
            f"{self.unfiltered * rate.seconds:,.4g}: {self.saved:.1%} saved"
        )


def stream_figures(log: Log, stream: str) -> StreamFigures | None:
    """What the pipeline of this stream last said about itself; None: nothing yet."""
    bodies: dict[str, bytes] = {}
    for key, _, body in records_of(log, status_topic(stream)):
        if body is not None:
            bodies[key] = body
    with skipping(f"the status of {stream}"):
        return _stream_figures(stream, bodies)
    return None


def _stream_figures(stream: str, bodies: Mapping[str, bytes]) -> StreamFigures | None:
    summaries = tuple(json.loads(body) for key, body in sorted(bodies.items()) if key.startswith("summary/"))
    if not summaries:
        return None
    pulled = bodies.get("polled/0")
    return StreamFigures(
        stream, summaries, _items(bodies), _sums(bodies), None if pulled is None else rows.unpack(pulled)
    )


def table_figures(log: Log, table: str) -> dict[str, Any] | None:
    """What the pipeline of this table, pair or views last said about itself; None: nothing yet. What several shards of
    a pair count apart is added up; one with `KEEP` speaks for all.
    """
    pipeline = PipelineId.parse(table)
    shards = 1 if pipeline.append_only else pipeline.shards
    records = [log.latest(status_topic(table), f"summary/{k}") for k in range(shards)]
    statuses = [read_json(record.body, f"the status of {table}") for record in records if record is not None]
    bodies = [body for body in statuses if isinstance(body, dict)]
    if not bodies:
        return None
    whole: dict[str, Any] = bodies[0]
    for other in bodies[1:]:
        for name in ("rows", "results"):
            whole[name] = whole.get(name, 0) + other.get(name, 0)
        for query, own in other["figures"].items():
            counted = whole["figures"].setdefault(query, {})
            whole["figures"][query] = {name: counted.get(name, 0) + count for name, count in own.items()}
    return whole


def known_figures(log: Log, stream: str) -> StreamFigures:
    """What a stream's pipeline last said.

    Raises:
        CommandError: it has said nothing yet.
    """
    figures = stream_figures(log, stream)
    if figures is None:
        raise CommandError(f"no pipeline has said anything about stream {stream} yet; is `tolerant run` running?")
    return figures


def streams_with_figures(log: Log) -> list[str]:
    """The streams that any pipeline has said anything about."""
    return TopicKind.STATUS.owners(log.topics())


def pull_figures(pulled: pa.RecordBatch | None, tick: int) -> MessageRates:
    """The figures of items of a polled stream."""
    count = 0 if pulled is None else len(pulled)
    per_second = float(pc.sum(pulled.column("pulls_per_second")).as_py() or 0.0) if pulled is not None else 0.0
    return MessageRates(count, per_second, count * SECOND / tick, "pulls")


def query_messages(log: Log, query: str) -> MessageRates | None:
    """The figures of a query's items; None: there is no such query, or nothing is known about its stream yet."""
    catalogue = load_catalogue(log)
    definition = catalogue.queries.get(query)
    select = None if definition is None else definition.select.aggregate
    if select is None:
        return None
    stream = catalogue.streams[select.stream]
    if stream.networked:
        from tolerant.cli.plan_tables import plan_messages  # it needs the planning core

        return plan_messages(log, query)
    figures = stream_figures(log, stream.name)
    if figures is None:
        return None
    with skipping(f"the figures of {query}"):
        own = [group_sum for group_sum in figures.sums if group_sum.query == query]
        return messages_of(figures, stream, [select], own)
    return None


def messages_of(
    figures: StreamFigures, stream: Stream, selects: Iterable[AggregateSelect], sums: Iterable[SumFigures]
) -> MessageRates:
    """The figures of the items that any of these selects uses, and of these sums of items."""
    tick = stream.options.tick
    if stream.polled:
        named = {item for select in selects for item in named_items(select, stream)}
        return pull_figures(_of_items(figures.pulled, named), tick)
    items, chosen = figures.items, np.zeros(len(figures.items), bool)
    for select in selects:
        for weights in members(select, Keys(stream, items.key)).values():
            chosen[list(weights)] = True
    count = int(chosen.sum())
    sent = float(items.updates_per_second[chosen].sum()) + sum(group_sum.updates_per_second for group_sum in sums)
    return MessageRates(count, sent, count * SECOND / tick)


def _of_items(pulled: pa.RecordBatch | None, items: Iterable[str]) -> pa.RecordBatch | None:
    wanted = pa.array(sorted(items), pa.string())
    return None if pulled is None else pulled.filter(pc.is_in(pulled.column("key"), value_set=wanted))


def _sums(bodies: Mapping[str, bytes]) -> tuple[SumFigures, ...]:
    batches = [rows.unpack(body) for key, body in sorted(bodies.items()) if key.startswith("sums/")]
    names = [field.name for field in fields(SumFigures)]
    sums = [row for batch in batches for row in batch.select(names).to_pylist()]
    return tuple(
        SumFigures(**{**row, "items": tuple(row["items"]), "elsewhere": tuple(row["elsewhere"])}) for row in sums
    )


def _items(bodies: Mapping[str, bytes]) -> Items:
    batches = [rows.unpack(body) for key, body in sorted(bodies.items()) if key.startswith("items/")]

    def column(name: str) -> list[Any]:
        return [value for batch in batches for value in batch.column(name).to_pylist()]

    def numbers(name: str) -> NDArray[np.float64]:
        return np.array(column(name), np.float64)

    return Items(
        key=column("key"),
        width=numbers("width"),
        believed=numbers("believed"),
        updates_per_second=numbers("updates_per_second"),
        burden=numbers("burden"),
        source=column("source"),
        stale=column("stale"),
        elsewhere=np.array(column("elsewhere"), np.float64).reshape(-1, len(FACTORS)),
    )
