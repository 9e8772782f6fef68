"""Quick benchmarks of two commits, in turns: `python benchmarks/compare_commits.py OLD NEW --rounds 5 --out FILE`.

Each commit gets a worktree of its own, which is removed at the end; a benchmark is run as that commit has it, with the
commit's package. In every round both run one after the other, the older first in every other round, so that a noisy
minute of the machine falls on both. A figure is the median of the rounds. Prints a table and writes it as JSON.

Figures are compared by name. Where a name was reworded, they are compared by their order, if units and number agree.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from side_by_side import machine

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = (
    "filters_simulate",
    "polling_simulate",
    "joins_upkeep",
    "retention_join",
    "merging_scale",
    "edge_set_many",
)
"""Those whose interface is the same since the first commit of the redesign."""

PROCESSOR_TIME = ("processor time of the script", "s")
Figures = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Row:
    """A figure at both commits; the newer's ratio to the older's, of the medians, and the extremes of the rounds."""

    benchmark: str
    figure: str
    unit: str
    old: float
    new: float
    ratio: float
    least: float
    most: float


def run(tree: Path, benchmark: str) -> Figures:
    """The figures of one quick run, and its processor time."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "MPLBACKEND": "Agg"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for file in (tree / "out").glob("bench-*.json"):
        file.unlink()
    # Its exit code says whether a target was met, which is not asked here.
    script = tree / "benchmarks" / f"{benchmark}.py"
    done = subprocess.run(
        [sys.executable, str(script), "--quick"], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    reports = sorted((tree / "out").glob("bench-*.json"))
    if not reports:
        raise SystemExit(f"{script} wrote no figures:\n{done.stderr[-2000:]}")
    figures: Figures = {}
    for report in reports:
        for figure in json.loads(report.read_text())["figures"]:
            figures[figure["name"], figure["unit"]] = figure["value"]
    figures[PROCESSOR_TIME] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return figures


def paired(old: Figures, new: Figures) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The names of figures that say the same, of the older and the newer commit."""
    if [unit for _, unit in old] == [unit for _, unit in new]:
        return list(zip(old, new, strict=True))
    return [(name, name) for name in new if name in old]


def rows(benchmark: str, rounds: Sequence[tuple[Figures, Figures]]) -> list[Row]:
    """The figures of a benchmark at both commits, over all rounds."""
    found = []
    for before, now in paired(*rounds[0]):
        values = [(old[before], new[now]) for old, new in rounds if old.get(before) and now in new]
        if values:
            old, new = (median(side) for side in zip(*values, strict=True))
            ratios = [new / old for old, new in values]
            found.append(Row(benchmark, *now, old, new, new / old, min(ratios), max(ratios)))
    return found


def table(found: Sequence[Row], old: str, new: str) -> str:
    """As Markdown, one figure per cell."""
    lines = [
        f"| benchmark | figure | unit | {old} | {new} | {new} / {old} | least | most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        numbers = " | ".join(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in (row.old, row.new))
        ratios = " | ".join(f"{value:.2f}" for value in (row.ratio, row.least, row.most))
        lines.append(f"| `{row.benchmark}` | {row.figure} | {row.unit} | {numbers} | {ratios} |")
    return "\n".join(lines)


def git(*words: str) -> str:
    """What a git command prints."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def compared(commits: Sequence[str], benchmarks: Sequence[str], rounds: int) -> Iterator[tuple[list[Row], list[float]]]:
    """The figures of two commits, benchmark by benchmark, and the load at the beginning of each round."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder) / commit for commit in commits]
        try:
            for tree, commit in zip(trees, commits, strict=True):
                git("worktree", "add", "--detach", str(tree), commit)
            for benchmark in benchmarks:
                for tree in trees:
                    run(tree, benchmark)  # compiled code is cached from here on
                measured, loads = [], []
                for number in range(rounds):
                    loads.append(round(os.getloadavg()[0], 1))
                    order = trees if number % 2 == 0 else trees[::-1]
                    figures = {tree: run(tree, benchmark) for tree in order}
                    measured.append((figures[trees[0]], figures[trees[1]]))
                yield rows(benchmark, measured), loads
        finally:
            for tree in trees:
                if tree.exists():
                    git("worktree", "remove", "--force", str(tree))


def main() -> None:
    """Compare two commits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=BENCHMARKS, metavar="BENCHMARK", help="names without .py")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "compare-commits.json")
    arguments = parser.parse_args()
    commits = [git("rev-parse", "--short=7", commit) for commit in (arguments.old, arguments.new)]
    if commits[0] == commits[1]:
        parser.error("two different commits are needed")
    record: dict[str, Any] = {
        "old": commits[0],
        "new": commits[1],
        "rounds": arguments.rounds,
        "machine": {name: value for name, value in machine().items() if name != "load"},
        "loads": {},
        "figures": [],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    found: list[Row] = []
    for benchmark, (figures, loads) in zip(
        arguments.only, compared(commits, arguments.only, arguments.rounds), strict=True
    ):
        found += figures
        record["loads"][benchmark] = loads
        record["figures"] += map(asdict, figures)
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")  # what is done stays if the rest is interrupted
        print(
            f"{benchmark}: {arguments.rounds} rounds at load {min(loads)} to {max(loads)}", file=sys.stderr, flush=True
        )
    print(table(found, *commits))


if __name__ == "__main__":
    main()
