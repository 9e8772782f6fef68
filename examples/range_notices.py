"""Tells every subscriber to a range minimum how a change concerns it, with one message: `python range_notices.py`."""

from __future__ import annotations

from tolerant.notifications import RangeMin, pack


def main() -> dict[str, float]:
    """Print and return what each subscriber knows after the change."""
    stocks = RangeMin.of(["a", "b", "c"], xs=[30, 50, 70], ys=[8, 5, 6])
    ranges = {"ann": (25, 60), "bob": (45, 80), "cid": (65, 90)}
    known = {who: stocks.minimum(*ends) for who, ends in ranges.items()}
    (notice,) = pack(stocks.update("b", 50, 9))  # the cheapest in two of the ranges becomes dear
    for who, ends in ranges.items():
        before, answer = known[who], notice.answer(*ends)
        known[who] = before if answer is None else answer
        print(f"{who} in {ends}: {known[who]}{'' if known[who] == before else f', was {before}'}")
    return known


if __name__ == "__main__":
    main()
