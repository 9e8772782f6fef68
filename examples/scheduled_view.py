"""Decides when to bring which table's changes into a view, so that no refresh is late: `python scheduled_view.py`."""

from __future__ import annotations

from tolerant.views import Linear, Scheduler


def main(ticks: int = 20, limit: float = 8.0) -> tuple[int, float]:
    """Print the pushes; return how many there were, and the longest that a refresh would have taken."""
    costs = [Linear(slope=1.0), Linear(slope=0.5, setup=4.0)]  # seconds for so many changes of each table
    scheduler = Scheduler(costs, limit=limit)
    pending, pushes, longest = [0, 0], 0, 0.0
    for tick in range(ticks):
        due = scheduler.arrive([1, 1])
        pending = [0 if table in due else count + 1 for table, count in enumerate(pending)]
        pushes += len(due)
        refresh = sum(cost(count) for cost, count in zip(costs, pending, strict=True) if count)
        longest = max(longest, refresh)
        print(f"tick {tick}: push {due or 'nothing'}, a refresh would take {refresh:.1f} s")
    return pushes, longest


if __name__ == "__main__":
    main()
