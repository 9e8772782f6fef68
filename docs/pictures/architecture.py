"""Makes docs/architecture.svg: the packages of `src/tolerant` along the path of a value.

The folders of `kinds/` are read from the tree. It fails for a package that does not exist or is not shown, and a test
compares the picture with what this draws.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tolerant"
WIDTH, HEIGHT = 1060, 750

SHELL = {
    "edge": "sources, tables, pollers",
    "transport": "the log: SQLite",
    "spark": "runs pipelines",
    "client": "answers, subscriptions",
}
HOPS = (
    ("edge", "transport", "rows"),
    ("transport", "spark", "entries"),
    ("spark", "client", "answers, by the log"),
)
BACK = "grants, probes, sum offers, plans: decided by the pipeline, read by the edge"
HOSTING = {"kinds": "", "pipeline": "what shards share: event time, statements, quarantine"}
CORES = {
    "filters": "what not to send",
    "polling": "what to ask for",
    "planning": "who answers a part",
    "merging": "who shares a channel",
    "joins": "which joins match",
    "retention": "what to remember",
    "views": "when to propagate",
    "notifications": "who is affected",
}
BELOW = {
    "relations": "rows, subscriptions",
    "kernels": "compiled loops, snapshots",
    "sql": "statements, catalogue",
    "testing": "fault simulators",
}
ABOVE = {"cli": "the commands", "demo": "tolerant demo", "experiments": "the papers' figures"}


def check_packages() -> None:
    """Refuse to draw anything but the packages that there are."""
    drawn = {*SHELL, *HOSTING, *CORES, *BELOW, *ABOVE}
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    if drawn != there:
        raise ValueError(f"not drawn: {sorted(there - drawn)}; drawn, but not there: {sorted(drawn - there)}")


def kinds() -> str:
    """The folders of `kinds/`: one per kind of query."""
    return ", ".join(sorted(path.parent.name for path in (SOURCE / "kinds").glob("*/__init__.py")))


def text(x: float, y: float, words: str, size: int = 12, style: str = "") -> str:
    """A line of text, centred at x."""
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="middle" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, name: str, role: str, fill: str) -> str:
    """A package as a box with its name and role."""
    middle = x + width / 2
    return "\n".join(
        (
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" fill="{fill}" '
            'stroke="#334"/>',
            text(middle, y + height / 2 - 2, name, 15, 'font-weight="bold"'),
            text(middle, y + height / 2 + 16, role, 10, 'fill="#445"'),
        )
    )


def arrow(x1: float, y1: float, x2: float, y2: float, words: str, above: float = 8) -> str:
    """An arrow with a label in the middle."""
    line = f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#334" marker-end="url(#head)"/>'
    return line + text((x1 + x2) / 2, min(y1, y2) - above, words, 11, 'fill="#223"')


def row(roles: dict[str, str], y: float, height: float, fill: str, gap: float) -> tuple[str, dict[str, float], float]:
    """Boxes of equal width in a row, the left edge of each, and their width."""
    width = (WIDTH - 80 - gap * (len(roles) - 1)) / len(roles)
    lefts = {name: 40 + place * (width + gap) for place, name in enumerate(roles)}
    boxes = "\n".join(box(left, y, width, height, name, roles[name], fill) for name, left in lefts.items())
    return boxes, lefts, width


def drawing() -> str:
    """The whole picture as SVG."""
    check_packages()
    above, _, _ = row(ABOVE, 44, 56, "#f3e9d8", 14)
    shell, lefts, width = row(SHELL, 174, 84, "#d9e6f5", 110)
    hosting, _, _ = row(HOSTING | {"kinds": kinds()}, 382, 62, "#d9e6f5", 14)
    cores, _, _ = row(CORES, 522, 62, "#dcebdc", 8)
    below, _, _ = row(BELOW, 648, 56, "#e6e6ee", 14)
    hops = "\n".join(
        arrow(lefts[source] + width + 4, 216, lefts[target] - 6, 216, words) for source, target, words in HOPS
    )
    right, left = lefts["spark"] + width / 2, lefts["edge"] + width / 2
    back = (
        f'<path d="M {right:.0f} 260 V 296 H {left:.0f} V 264" fill="none" stroke="#334" '
        f'stroke-dasharray="5 4" marker-end="url(#head)"/>' + text((left + right) / 2, 314, BACK, 11)
    )
    captions = (
        text(WIDTH / 2, 30, "what people run", 13, 'fill="#556"'),
        text(WIDTH / 2, 150, "the path of a value", 13, 'fill="#556"'),
        text(WIDTH / 2, 366, "shards: a folder per kind of query, hosts its core; no Spark", 13, 'fill="#556"'),
        text(WIDTH / 2, 506, "cores: pure functions of arrays; none imports another", 13, 'fill="#556"'),
        text(WIDTH / 2, 632, "shared: relations, compiled kernels, statements, simulators", 13, 'fill="#556"'),
        arrow(right + 60, 376, right + 60, 266, "", 0),
        arrow(right + 60, 490, right + 60, 450, "", 0),
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
            '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#334"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            above, shell, hops, back, *captions, hosting, cores, below, "</svg>", "",
        )
    )  # fmt: skip


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.svg").write_text(drawing())
