"""Asks for as few quotes as a portfolio's promise allows: `python web_polling.py`.

`tolerant poll` does the same against web servers; here the values are in an array, and asking is counted.
"""

from __future__ import annotations

import numpy as np

from tolerant.polling import Poller
from tolerant.queries import Aggregate


def main(ticks: int = 2_000) -> tuple[float, float]:
    """Print and return the share of readings that were asked for, and of the time that the answer was right."""
    moves = np.random.default_rng(0).normal(0, [0.05, 0.2, 1.0], (ticks, 3))
    prices = 100 + np.cumsum(moves, axis=0)
    stocks = ["calm", "normal", "wild"]
    portfolio = Aggregate("portfolio", "sum", {"calm": 5.0, "normal": 2.0, "wild": 1.0}, within=10, fidelity=0.95)
    weights = np.array([portfolio.weights[stock] for stock in stocks])
    poller = Poller([portfolio], "risk")
    asked, right, value = 0, 0, 0.0
    for tick in range(ticks):
        for stock in poller.due(tick):
            poller.pulled(stock, prices[tick, stocks.index(stock)], tick)
            asked += 1
        for answer in poller.answers():
            value = answer.value
        right += abs(value - float(weights @ prices[tick])) <= 10
    share, fidelity = asked / (ticks * len(stocks)), right / ticks
    print(f"asked for {share:.1%} of all readings; right {fidelity:.1%} of the time, {0.95:.0%} promised")
    return share, fidelity


if __name__ == "__main__":
    main()
