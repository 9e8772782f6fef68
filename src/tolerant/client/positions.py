"""Where a reader stands: what an application keeps, and resumes from."""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.transport.log import START

WHOLE = 1 << 62
"""More rows than any entry has: the whole of it."""


@dataclass(frozen=True, order=True)
class Position:
    """After `rows` rows of the entry at `entry`; `mark` is the time or step of what was read last.

    >>> str(Position(17, 3, 250)), Position.of("17:3:250") == Position(17, 3, 250), Position.of(17).rows == WHOLE
    ('17:3:250', True, True)
    """

    entry: int = START
    rows: int = WHOLE
    mark: int = -1

    def __str__(self) -> str:
        return f"{self.entry}:{self.rows}:{self.mark}"

    @classmethod
    def of(cls, kept: Position | str | int) -> Position:
        """A position as it was kept: itself, its text, or the position of a log entry that was dealt with.

        Raises:
            ValueError: the text is not that of a position.
        """
        if isinstance(kept, Position):
            return kept
        if isinstance(kept, int):
            return cls(kept)
        try:
            entry, rows, mark = (int(part) for part in kept.split(":"))
        except ValueError:
            raise ValueError(f"a position is text such as '17:3:250', got {kept!r}") from None
        return cls(entry, rows, mark)
