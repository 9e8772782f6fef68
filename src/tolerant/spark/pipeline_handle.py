"""What the runner asks of a running pipeline, whether Spark runs it as a streaming query or a thread in the driver."""

from __future__ import annotations

from typing import Protocol


class PipelineHandle(Protocol):
    """A pipeline that has been started."""

    @property
    def done(self) -> int:
        """How many batches this run has written."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it is in service: it has written its first batch, and keeps what its queries promise."""
        ...

    @property
    def position(self) -> int:
        """The log has been applied up to here, and the outputs are in it."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself, that is, failed."""
        ...

    @property
    def failure(self) -> Exception | None:
        """Why it failed; None: it has not, or it stopped without an error."""
        ...

    @property
    def is_written(self) -> bool:
        """Whether the outputs of the batch that failed are in the log: then its entries must apply as they did."""
        ...

    def stop(self, wait: float = 30.0) -> None:
        """Finish the batch under way, if that takes no longer than `wait` seconds, and end."""
        ...
