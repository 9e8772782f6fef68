"""What the shard of a stream with a network knows of the aggregators' lives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tolerant.transport.rows import NO_TIME


@dataclass
class Alive:
    """An aggregator as the pipeline knows it. It has `lived` up to the greatest `through` of its rows that have been
    read, of the start that its parts are known by; `coming` is (epoch, through) of a newer start, whose time has not
    come.
    """

    heard: int
    epoch: int = 0
    silent: bool = False
    late: int = 0
    lived: int = NO_TIME
    unproven: bool = False
    """Whether it may have died since it was last heard: what it sent before that may not hold any more."""
    coming: tuple[int, int] = (0, NO_TIME)

    def read(self, epoch: int, through: int) -> None:
        """A row of it has been read, though its time may not have come."""
        if epoch == self.epoch:
            self.lived = max(self.lived, through)
        elif epoch == self.coming[0]:
            self.coming = (epoch, max(self.coming[1], through))
        elif epoch > max(self.epoch, self.coming[0]):
            self.coming = (epoch, through)

    def restart(self, epoch: int, through: int) -> None:
        """It has started again."""
        self.epoch = epoch
        self.lived = max(through, self.coming[1]) if self.coming[0] == epoch else through

    @property
    def trusted(self) -> bool:
        """Whether its last values still hold."""
        return not (self.silent or self.unproven)


class Aggregators:
    """The aggregators of a network by name: which are live, and up to when each is known to have lived."""

    def __init__(self, names: Iterable[str], lease: int) -> None:
        self._lease = lease
        self._alive = {name: Alive(NO_TIME) for name in names}

    def __getitem__(self, name: str) -> Alive:
        return self._alive[name]

    def __contains__(self, name: object) -> bool:
        return name in self._alive

    def __iter__(self) -> Iterator[str]:
        return iter(self._alive)

    def items(self) -> Iterable[tuple[str, Alive]]:
        """(name, aggregator) of all."""
        return self._alive.items()

    def begin(self, at: int) -> None:
        """Every aggregator counts as live for a lease from now on."""
        for alive in self._alive.values():
            alive.heard = at

    def next_change(self, reached: int, until: int) -> int:
        """The first moment after `reached` at which one falls silent or is not proven live any more; else `until`."""
        silence = min((a.heard + self._lease + 1 for a in self._alive.values() if not a.silent), default=until)
        doubt = min((a.lived + 1 for a in self._alive.values() if a.trusted and a.epoch), default=until)
        return min(silence, max(doubt, reached + 1))

    def falling_silent(self, at: int) -> Iterator[str]:
        """Mark one after the other those that are silent at `at`, and yield their names."""
        for name, alive in self._alive.items():
            if not alive.silent and alive.heard + self._lease < at:
                alive.silent = True
                yield name

    def losing_proof(self, at: int) -> Iterator[str]:
        """Mark one after the other those not known to be alive at `at`, and yield their names: they may have crashed,
        and their items changed.
        """
        for name, alive in self._alive.items():
            if alive.trusted and alive.epoch and alive.lived < at:
                alive.unproven = True
                yield name

    def regaining_proof(self, at: int) -> Iterator[str]:
        """Clear the mark of those whose rows show that they were alive after `at`, and yield their names: they had sent
        every change.
        """
        for name, alive in self._alive.items():
            if alive.unproven and alive.lived > at:
                alive.unproven = False
                yield name

    def returns(self, name: str, at: int) -> bool:
        """Whether a silent one has been heard again, which it then is not any more."""
        alive = self._alive[name]
        if not alive.silent or alive.heard + self._lease < at:
            return False
        alive.silent = alive.unproven = False
        return True

    def distrusted(self) -> list[str]:
        """Those whose last values may not hold."""
        return [name for name, alive in self._alive.items() if not alive.trusted]

    def are_silent(self) -> bool:
        """Whether all are silent."""
        return all(alive.silent for alive in self._alive.values())

    def state(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {name: vars(alive) for name, alive in self._alive.items()}

    def load(self, values: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self._alive = {name: Alive(**{**own, "coming": tuple(own["coming"])}) for name, own in values.items()}
