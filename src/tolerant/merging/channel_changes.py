"""Which channels and subscribers a change of the subscriptions affected."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Box: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class ChannelChanges:
    """Channels `opened`, `closed` and `resized` by number, and `moves` (id, from channel, to channel).

    A move comes from None for an added subscription, and goes to None for a removed one.
    """

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    resized: tuple[int, ...] = ()
    moves: tuple[tuple[Hashable, int | None, int | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed or self.resized or self.moves)


@dataclass(frozen=True)
class RepairSearch:
    """How windows of a plan are solved again after a change.

    `turn` counts the repairs, so that each has random starts of its own; `tries`: random starts; `hysteresis`: the
    saving that a solution must exceed per query that moves.
    """

    seed: int
    turn: int
    tries: int
    hysteresis: float


@dataclass
class Journal:
    """Records one change of a plan: the box of each channel before it (None: the channel is new), and the channel of
    units before it (None: the unit is new).
    """

    boxes: dict[int, Box | None] = field(default_factory=dict)
    units: dict[int, int | None] = field(default_factory=dict)

    def touch(self, channel: int, before: Box | None) -> None:
        """Record the box of a channel that is about to change, or None for one that was just opened."""
        self.boxes.setdefault(channel, before)

    def move(self, unit: int, before: int | None) -> None:
        """Record that a unit leaves this channel."""
        self.units.setdefault(unit, before)

    def changes(
        self, now: Mapping[int, Box | None], moves: tuple[tuple[Hashable, int | None, int | None], ...]
    ) -> ChannelChanges:
        """Return the changes, given the current boxes of the recorded channels (None: closed)."""
        recorded = [(channel, before, now[channel]) for channel, before in sorted(self.boxes.items())]
        return ChannelChanges(
            opened=tuple(channel for channel, before, after in recorded if before is None and after is not None),
            closed=tuple(channel for channel, before, after in recorded if before is not None and after is None),
            resized=tuple(
                channel
                for channel, before, after in recorded
                if before is not None and after is not None and before != after
            ),
            moves=moves,
        )
