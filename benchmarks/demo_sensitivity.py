"""How far the demo's result reaches: the same queries under other tolerances, on other traffic, all simulated.

The demo shows one tolerance on one kind of traffic. Here are the messages of adaptive filters over those of uniform
ones, for tolerances from a quarter of the demo's to twice it and bursts from one minute to ten.
"""

from __future__ import annotations

from dataclasses import replace

from side_by_side import Figure, arguments, report
from tolerant.demo.sums import aggregates, simulated
from tolerant.demo.traffic import Shape, generate, statements
from tolerant.sql import CreateQuery, CreateStream, parse_many

TOLERANCES = (10.0, 20.0, 40.0, 80.0)
BURSTS = ((60.0, 240.0), (120.0, 480.0), (300.0, 600.0), (600.0, 600.0))


def main() -> None:
    quick = arguments(__doc__ or "").quick
    shape = Shape(ticks=600) if quick else Shape()
    figures = [
        Figure(
            f"bursts {on:g} s, rests {off:g} s, WITHIN {tolerance:g}",
            ratio(replace(shape, on=on, off=off), tolerance),
            "×",
        )
        for on, off in BURSTS
        for tolerance in TOLERANCES
    ]
    report("demo-sensitivity", {"ticks": shape.ticks, "hosts": shape.hosts}, figures)


def ratio(shape: Shape, tolerance: float) -> float:
    """Adaptive's messages over uniform's."""
    trace, said = generate(shape), parse_many("\n".join(statements(shape, tolerance)))
    stream = next(statement.stream for statement in said if isinstance(statement, CreateStream))
    queries = aggregates([statement for statement in said if isinstance(statement, CreateQuery)], stream, trace.items)
    uniform, adaptive = (simulated(name, name, trace, queries, shape.period).total for name in ("uniform", "adaptive"))
    return adaptive / uniform


if __name__ == "__main__":
    main()
