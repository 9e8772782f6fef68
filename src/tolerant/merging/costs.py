"""The cost of a channel, of a row on it and of a row received for nothing ([CBGM] §4, §5.2, §7.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tolerant.kernels.array_types import Floats


@dataclass(frozen=True)
class Costs:
    """The three prices, in any currency: only their ratios decide which queries share a channel.

    `channel` (K_M): keeping a channel for a period. `transfer` (K_T): finding and sending a row once. `waste` (K_U): a
    row that one receiver gets and does not want. `answer`, where the server's work is not linear in the size: a
    function from boxes float[k, 2d] to the cost of answering each, float[k], which is added to the price of a channel.

    >>> Costs(channel=10, transfer=9, waste=4).group(members=2, size=4.0)
    78.0
    """

    channel: float
    transfer: float
    waste: float
    answer: Callable[[Floats], Floats] | None = None

    def __post_init__(self) -> None:
        for name in ("channel", "transfer", "waste"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) or hasattr(value, "__float__")):
                raise ValueError(f"{name} must be a number, got {value!r}")
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} must be finite and not negative, got {value!r}")
            object.__setattr__(self, name, float(value))
        if self.answer is not None and not callable(self.answer):
            raise ValueError(f"answer must be a function of boxes, or None, got {self.answer!r}")

    def group(self, members: int, size: float) -> float:
        """Return c(M) = K_M + (K_T + K_U·|M|)·S(M), what a group adds to the cost (`docs/design/merging.md` §2.2)."""
        return self.channel + (self.transfer + self.waste * members) * size

    def folded(self, weight: float, each: float, per_row: float) -> Costs:
        """Return these prices with server work of `each` + `per_row`·size per answer included, weighted by K_A.

        >>> Costs(7, 1.5, 0.5).folded(1, 3, 0.5)
        Costs(channel=10.0, transfer=2.0, waste=0.5, answer=None)
        """
        return Costs(self.channel + weight * each, self.transfer + weight * per_row, self.waste, self.answer)

    @classmethod
    def estimate(
        cls,
        *,
        server_second: float,
        query_seconds: float,
        row_seconds: float,
        megabyte: float,
        channel_megabytes: float,
        row_megabytes: float,
        client_second: float,
        client_row_seconds: float,
    ) -> Costs:
        """Return prices from what machines and networks cost ([CBGM] §7.2).

        A second of the server, a megabyte on the network and a second of a client have a price each; a query takes the
        server `query_seconds` and `row_seconds` per row, a channel the network `channel_megabytes` and `row_megabytes`
        per row, a row a client `client_row_seconds`.
        """
        return cls(
            server_second * query_seconds + megabyte * channel_megabytes,
            server_second * row_seconds + megabyte * row_megabytes,
            client_second * client_row_seconds,
        )
