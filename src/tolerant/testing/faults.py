"""How often each fault strikes in a simulation."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Faults:
    """Probabilities of faults; the comments say of what. `Faults()` injects all but the last two, `Faults.none()` none.

    >>> Faults(source_crash=0.0).source_crash, Faults.none().slow_append
    (0.0, 0.0)
    """

    slow_append: float = 0.02  # of an append: it takes longer than the latency allowance, its rows are late
    repeated_append: float = 0.06  # of an append: its rows stand in the log twice
    corrupt_row: float = 0.01  # of an append: a row of it cannot be used
    garbage: float = 0.004  # of a source's turn: somebody appends what nobody can read
    lost_grant: float = 0.1  # of a grant on its way to a source
    late_grant: float = 0.15  # of a grant; it overtakes and is overtaken
    repeated_grant: float = 0.1  # of a grant
    source_crash: float = 0.006  # of a source's turn: rows not yet in the log may be lost
    source_stall: float = 0.01  # of a source's turn: it does nothing for a while
    skewed_clock: float = 0.008  # of a source's turn: its clock jumps, ahead or back
    churn: float = 0.02  # of a source's turn: an item joins or leaves
    statement: float = 0.35  # of an administrator's turn: a query comes, goes or changes
    pipeline_crash: float = 0.06  # of a batch: before or after its outputs are written
    lost_worker: float = 0.05  # of a batch: the shard is restored from a snapshot and the batches since
    pipeline_stall: float = 0.03  # of a batch: the next one comes late
    pipeline_clock: float = 0.01  # of a clock row: it steps back or ahead
    cold_start: float = 0.25  # of a restart: on an empty checkpoint
    second_pipeline: float = 0.02  # of a batch: a second pipeline starts while this one runs
    lost_snapshot: float = 0.2  # of a restore: the newest snapshot is gone, the one before it serves
    late_hello: float = 0.0  # of a turn of an item whose hello is due after a start: it waits for the next turn
    poison: float = 0.0  # of an append without departures: every shard fails at it, and it is put into quarantine

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= 1:
                raise ValueError(f"{field.name} must be in [0, 1], got {getattr(self, field.name)}")

    @classmethod
    def none(cls) -> Faults:
        """Nothing goes wrong and nobody changes anything."""
        return cls(**{field.name: 0.0 for field in fields(cls)})
