"""Positions of readers in a topic, which an application stores and resumes from."""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.transport.log import START

WHOLE = 1 << 62
"""More rows than any entry has: the whole entry."""


@dataclass(frozen=True, order=True)
class Position:
    """The position after `rows` rows of the entry at `entry`; `mark` is the time or step of what was read last.

    >>> str(Position(17, 3, 250)), Position.of("17:3:250") == Position(17, 3, 250), Position.of(17).rows == WHOLE
    ('17:3:250', True, True)
    """

    entry: int = START
    rows: int = WHOLE
    mark: int = -1

    def __str__(self) -> str:
        return f"{self.entry}:{self.rows}:{self.mark}"

    @classmethod
    def of(cls, stored: Position | str | int) -> Position:
        """Return the position that was stored: as itself, as its text, or as the position of a processed log entry.

        Raises:
            ValueError: the text is not that of a position.
        """
        if isinstance(stored, Position):
            return stored
        if isinstance(stored, int):
            return cls(stored)
        try:
            entry, rows, mark = (int(part) for part in stored.split(":"))
        except ValueError:
            raise ValueError(f"a position is text such as '17:3:250', got {stored!r}") from None
        return cls(entry, rows, mark)
