"""The one way to run methods side by side and print the ratio: interleaved, warmed up, best of n.

Run it to see what a report looks like: `python benchmarks/side_by_side.py`. A benchmark is a file that calls `compare`
(two methods, one piece of work) or measures by itself, and ends with `report`: figures and their bars, on the terminal
and as JSON in `out/`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import psutil

OUT = Path(__file__).resolve().parent.parent / "out"


@dataclass(frozen=True)
class Timing:
    """How long a method took, seconds, round by round."""

    name: str
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The round that was disturbed least."""
        return min(self.seconds)


@dataclass(frozen=True)
class Comparison:
    """Methods that did the same work, the one of interest first."""

    title: str
    timings: tuple[Timing, ...]

    def ratio(self, of: str, to: str) -> float:
        """How many times as fast `of` is as `to`."""
        best = {timing.name: timing.best for timing in self.timings}
        return best[to] / best[of]

    def text(self, work: float | None = None, unit: str = "rows") -> str:
        """A line a method: its best round, its speed where `work` units were done, its ratio to the first one."""
        first = self.timings[0]
        width = max(len(timing.name) for timing in self.timings)
        lines = [self.title]
        for timing in self.timings:
            speed = f"  {work / timing.best:14,.0f} {unit}/s" if work is not None else ""
            against = "" if timing is first else f"  {first.name} is {timing.best / first.best:.2f}× as fast"
            lines.append(f"  {timing.name:<{width}}  {timing.best:10.4f} s{speed}{against}")
        return "\n".join(lines)


def compare(
    title: str, methods: Mapping[str, Callable[[], object]], *, rounds: int = 3, warmups: int = 1
) -> Comparison:
    """Run the methods in turns, `warmups` rounds that do not count and `rounds` that do.

    Interleaved, so that a noisy minute of the machine falls on all of them; garbage is collected before each: none
    pays for another's.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(warmups + rounds):
        for name, run in methods.items():
            gc.collect()
            start = time.perf_counter()
            run()
            elapsed = time.perf_counter() - start
            if turn >= warmups:
                seconds[name].append(elapsed)
    return Comparison(title, tuple(Timing(name, tuple(times)) for name, times in seconds.items()))


@dataclass(frozen=True)
class Figure:
    """One measured number; `holds` says whether its bar is met, None where it has none."""

    name: str
    value: float
    unit: str
    bar: str = ""
    holds: bool | None = None

    def __post_init__(self) -> None:
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))  # NumPy's False `is not False`


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def report(name: str, inputs: Mapping[str, object], figures: Sequence[Figure], out: Path = OUT) -> bool:
    """Print the figures with machine and inputs, write them to `out/bench-<name>.json`; whether every bar is met."""
    here = machine()
    print(f"{name}: {', '.join(f'{key} {value}' for key, value in inputs.items())}")
    print(f"  machine: {', '.join(f'{key} {value}' for key, value in here.items())}")
    for figure in figures:
        mark = {True: "  holds", False: "  MISSED", None: ""}[figure.holds]
        bar = f"  (bar: {figure.bar})" if figure.bar else ""
        print(f"  {figure.name:<44} {figure.value:>16,.3f} {figure.unit}{bar}{mark}")
    out.mkdir(parents=True, exist_ok=True)
    record = {"name": name, "machine": here, "inputs": dict(inputs), "figures": [asdict(figure) for figure in figures]}
    (out / f"bench-{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    return all(figure.holds is not False for figure in figures)


def arguments(description: str) -> argparse.Namespace:
    """The arguments every benchmark takes: `--quick`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="a small run that shows that it works; its figures are rough"
    )
    return parser.parse_args()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    import numpy as np

    values = np.random.default_rng(0).random(200_000)
    listed = values.tolist()
    comparison = compare("sum of 200,000 floats", {"numpy": lambda: values.sum(), "python": lambda: sum(listed)})
    print(comparison.text(work=len(values), unit="values"))
    report(
        "side-by-side", {"values": len(values)}, [Figure("numpy over python", comparison.ratio("numpy", "python"), "×")]
    )


if __name__ == "__main__":
    main()
