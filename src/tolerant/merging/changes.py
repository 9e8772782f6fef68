"""What a change of the subscriptions changed in the channels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Box: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class Changes:
    """Channels `opened`, `closed` and `resized` by number, and `moves` (id, from channel, to channel): None is where
    who was added comes from, and where who was removed goes.
    """

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    resized: tuple[int, ...] = ()
    moves: tuple[tuple[Hashable, int | None, int | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed or self.resized or self.moves)


@dataclass
class Journal:
    """What happens to a plan in one go: each channel's box before (None: there was none), and where units were before
    (None: they are new).
    """

    boxes: dict[int, Box | None] = field(default_factory=dict)
    units: dict[int, int | None] = field(default_factory=dict)

    def touch(self, channel: int, before: Box | None) -> None:
        """A channel is about to change, or has just been opened."""
        self.boxes.setdefault(channel, before)

    def move(self, unit: int, before: int | None) -> None:
        """A unit leaves this channel."""
        self.units.setdefault(unit, before)

    def told(
        self, now: Mapping[int, Box | None], moves: tuple[tuple[Hashable, int | None, int | None], ...]
    ) -> Changes:
        """The changes, given the boxes that the touched channels have now (None: closed)."""
        both = [(channel, before, now[channel]) for channel, before in sorted(self.boxes.items())]
        return Changes(
            opened=tuple(channel for channel, before, after in both if before is None and after is not None),
            closed=tuple(channel for channel, before, after in both if before is not None and after is None),
            resized=tuple(
                channel
                for channel, before, after in both
                if before is not None and after is not None and before != after
            ),
            moves=moves,
        )
