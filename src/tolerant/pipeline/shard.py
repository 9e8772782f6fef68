"""Base of the shards of every kind: entries by topic, statements and their replies, dead letters, entries in
quarantine, the status once per adjustment period, the order of the outputs, and snapshots.

A kind says which topics it reads (`_readers`), what happens when time advances (`_advance_clock`), what a statement
about one of its queries does (`_carry_out`), what it publishes, and what its state is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeVar

from tolerant.kernels.snapshots import Schema, State
from tolerant.pipeline.event_time import EventTime
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.intake import DeadRow, dead_payload
from tolerant.pipeline.quarantined_rows import early_row, letter, sift_early, skip_statements
from tolerant.pipeline.statements import dead_letter_and_reply_outputs, owner_of, statement_rows, take_statements
from tolerant.sql import Catalogue, Statement, decode, encode
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import Quarantined, WaitingRow, is_marked, read_marked
from tolerant.transport.rows import NO_TIME
from tolerant.transport.topics import QUERIES

T = TypeVar("T")


class Shard(ABC):
    """One shard of the pipeline `home`. It is a function of the log: see `docs/design/pipeline.md` §3.

    `period`: between two statuses, microseconds of event time. `counters`: the names of what is counted for the status.
    """

    SCHEMA: ClassVar[Schema]
    """Of the snapshots of this kind."""

    DEFERS_STATEMENTS: ClassVar[bool] = False
    """Whether statements before the first watermark wait for it."""

    def __init__(self, home: str, shard: int, event_time: EventTime, period: int, counters: Iterable[str]) -> None:
        self._home, self._shard = home, shard
        self._event_time, self._period = event_time, period
        self._readers: dict[str, Callable[[Entry], None]] = {}  # by topic
        self._catalogue = Catalogue()
        self._early: list[tuple[str, str]] = []  # (request, body) of statements that wait for the first watermark
        self._replies: list[dict[str, object]] = []
        self._dead: list[DeadRow] = []
        self._counters: dict[str, int] = dict.fromkeys(counters, 0)
        self._reported = -1  # how many periods had ended at the last status

    # -- what a kind of shard defines ----------------------------------------------------------------------------------

    @abstractmethod
    def _advance_clock(self, at: int, number: int) -> None:
        """Called for every clock row that counts, of the input of this number."""

    @abstractmethod
    def _carry_out(self, statement: Statement) -> str:
        """Carry out an accepted statement of this pipeline that changed the catalogue; returns what to add to the
        reply.
        """

    @abstractmethod
    def _skip_rows(self, skipped: Quarantined) -> None:
        """Skip an entry of rows; drop the waiting rows that the record names."""

    @abstractmethod
    def _pending_rows(self) -> list[WaitingRow]:
        """The rows that wait for the watermark, and the queries that wait for time to advance."""

    @abstractmethod
    def _drain_outputs(self) -> list[Output]:
        """Return the outputs since the last call, except dead letters, replies and the status."""

    @abstractmethod
    def _status(self) -> Output:
        """Pack the status."""

    @abstractmethod
    def _kind_state(self) -> State:
        """Return the fields that only this kind has. Between batches no outputs are pending, so they contain none."""

    @abstractmethod
    def _load_kind(self, state: State) -> None:
        """Restore what `_kind_state` returned; the catalogue, event time and counters have been restored before."""

    # -- entries -------------------------------------------------------------------------------------------------------

    def apply(self, batch: Sequence[Entry]) -> list[Output]:
        """Applies entries in log order; returns the outputs."""
        for entry in batch:
            if is_marked(entry.topic):
                self._skip(read_marked(entry))
            elif entry.topic == QUERIES:
                self._read_statements(entry.payload)
            elif entry.topic in self._readers:
                self._readers[entry.topic](entry)
            else:
                reason = f"this pipeline does not read the topic {entry.topic!r:.80}"
                self._dead.append(dead_payload(reason, entry.payload))
        return self._drain()

    def _decoded(self, payload: bytes, read: Callable[[bytes], T], what: str = "") -> T | None:
        """What `read` makes of a payload; None where it raises ValueError: the entry is a dead letter then."""
        try:
            return read(payload)
        except ValueError as error:
            self._dead.append(dead_payload(f"{what}{error}", payload))
            return None

    def _count(self, what: str, number: int = 1) -> None:
        self._counters[what] = self._counters.get(what, 0) + number

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def watermark(self) -> int | None:
        """Event time up to which all rows have been applied, microseconds; None before every input had a clock row."""
        return self._event_time.watermark

    @property
    def _now(self) -> int:
        """The watermark; 0 before the first."""
        return self._event_time.watermark or 0

    @property
    def _ended_periods(self) -> int:
        """How many adjustment periods have ended."""
        return self._now // self._period

    def _take_clock_row(self, at: int, number: int = 0, *, is_named: bool) -> None:
        """Advance the clock of an input, once or twice or not at all (`pipeline/clocks.py`). `is_named`: the row names
        the pipeline that it is from.
        """
        if at != NO_TIME:
            times, refused = self._event_time.accept(at, number, is_named=is_named)
            self._refuse(refused)
            for time in times:
                self._advance_clock(time, number)

    def _refuse(self, letters: list[DeadRow]) -> None:
        """Add dead letters of rows of the entry that is being read."""
        self._dead += letters

    # -- statements ----------------------------------------------------------------------------------------------------

    def _read_statements(self, payload: bytes) -> None:
        rows = statement_rows(payload, self._dead)
        if self.DEFERS_STATEMENTS and self.watermark is None:
            self._early += rows
        else:
            self._take_statements(rows)

    def _take_statements(self, rows: Sequence[tuple[str, str]]) -> None:
        """Apply (request, body) of statements in order; they take effect just after the watermark."""
        take_statements(rows, self._take_statement, self._dead)

    def _take_early_statements(self) -> None:
        """Apply the statements that waited for the first watermark."""
        early, self._early = self._early, []
        self._take_statements(early)

    def _take_statement(self, request: str, statement: Statement) -> None:
        is_own = owner_of(statement, self._catalogue) == self._home
        outcome = self._catalogue.apply(statement)
        if outcome.changed:
            self._on_change(statement)
        if not is_own:
            return
        message = outcome.message + (self._carry_out(statement) if outcome.changed else "")
        if not self._shard:  # all shards read the same statements: only the first replies
            reply = {"request": request, "key": statement.about, "at": self._now}
            self._replies.append(reply | {"accepted": outcome.accepted, "message": message})

    def _on_change(self, statement: Statement) -> None:  # noqa: B027 - a hook
        """Called for every statement that changed the catalogue, whoever carries it out."""

    # -- entries in quarantine -----------------------------------------------------------------------------------------

    def _skip(self, skipped: Quarantined) -> None:
        self._dead.append(letter(skipped))
        if skip_statements(skipped, self._catalogue, self._take_statement):
            self._skip_statements(skipped)
        else:
            self._skip_rows(skipped)

    def _skip_statements(self, skipped: Quarantined) -> None:  # noqa: B027 - a hook
        """Called when an entry of statements has been skipped."""

    def _drop_early_statements(self, skipped: Quarantined) -> None:
        """Drop those of the statements that wait for the first watermark that the record names."""
        self._early, letters = sift_early(skipped, self._early)
        self._dead += letters

    def waiting_rows(self) -> list[WaitingRow]:
        """What waits for the watermark: rows, queries to be opened, statements."""
        return [*self._pending_rows(), *map(early_row, self._early)]

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _drain(self) -> list[Output]:
        outputs = self._drain_outputs()
        self._count("dead", sum(row.count for row in self._dead))
        outputs += dead_letter_and_reply_outputs(self._home, self._dead, self._replies)
        self._dead.clear()
        self._replies.clear()
        if self.watermark is not None and self._ended_periods > self._reported:
            self._reported = self._ended_periods
            outputs.append(self._status())
        return outputs

    # -- state ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The state as bytes."""
        shard = State(
            statements=[encode(statement) for statement in self._catalogue.statements()],
            early=self._early,
            counters=self._counters,
            reported=self._reported,
            event_time=self._event_time.state(),
        )
        return self.SCHEMA.pack(State(shard=shard, kind=self._kind_state()))

    def restore(self, snapshot: bytes) -> None:
        """Restores what `snapshot` returned, bit for bit."""
        shard, kind = self.SCHEMA.unpack(snapshot).exactly("shard", "kind")
        statements, early, counters, self._reported, event_time = shard.exactly(
            "statements", "early", "counters", "reported", "event_time"
        )
        self._catalogue = Catalogue(decode(statement) for statement in statements)
        self._early = [(request, body) for request, body in early]
        self._counters.update(counters)
        self._event_time.load(event_time)
        self._load_kind(kind)
