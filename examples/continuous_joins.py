"""Matches orders with offers as both change, and retracts what no longer matches: `python continuous_joins.py`."""

from __future__ import annotations

from tolerant.joins import TwoSidedSelectJoins


def main() -> list[tuple[int, int, int]]:
    """Print and return the changes of the result: (sign, supply, demand)."""
    product = 42.0
    matches = TwoSidedSelectJoins()
    matches.add(1, 5, 10, 100, 200)  # of one product, with a supply of 5 to 10 and a demand of 100 to 200
    changes = []
    for change in (
        matches.insert_r([7], a=[8.0], bs=[product]),
        matches.insert_s([9, 10], bs=[product, product], cs=[150.0, 250.0]),  # the second is out of range
        matches.insert_r([8], a=[6.0], bs=[product]),
        matches.delete_r([7]),
    ):
        changes += [(change.sign, r, s) for r, s in zip(change.r.tolist(), change.s.tolist(), strict=True)]
    for sign, r, s in changes:
        print("+" if sign > 0 else "-", f"supply {r}, demand {s}")
    return changes


if __name__ == "__main__":
    main()
