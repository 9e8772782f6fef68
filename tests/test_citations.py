"""Every file, folder and module that a document or a docstring cites is in the repository."""

import ast
import os
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
FILES = {name for name in LISTED if (ROOT / name).exists()}
FOLDERS = {str(parent) for name in FILES for parent in Path(name).parents}
ENDS = {f"/{name}"[place:] for name in FILES | FOLDERS for place, letter in enumerate(f"/{name}") if letter == "/"}

NOT_OURS = {
    *("application.py", "network.toml", "tolerant.json", "demo.json", "demo.png", "out/demo/demo.png"),
    *("conf/spark-defaults.conf", "filters_fig7.py", "out/", "run.txt"),
}
"""Files that users or programs write, and examples of names."""

PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
MODULE = re.compile(r"`(tolerant(?:\.(?!json\b)\w+)+)`")
PACKAGES = sorted(name.split("/")[2] for name in FILES if re.fullmatch(r"src/tolerant/\w+/__init__\.py", name))
SETTINGS = r"spark\.(?:authenticate|network|io|python)\b"
SHORT = re.compile(rf"`(?!{SETTINGS})((?:{'|'.join(PACKAGES)})\.(?!(?:md|json|png)\b)[A-Za-z_][\w.]*)`")
"""A dotted name that begins with a package of ours; Spark's settings and files are none."""
ELSEWHERE = re.compile(r"\bthe spec(?:ification)?\b|\bthe issue's\b", re.IGNORECASE)
"""Names of documents that are not in the repository."""
TARGET = re.compile(r"(?:`|entry: )make ([a-z][\w-]*)")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
SUFFIXES = (".py", ".md", ".toml", ".json", ".sh", ".txt", ".svg", ".png", ".java", "/")


def docstrings(text: str) -> str:
    """The docstrings of a module and what is in it."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found, nodes = [], [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        # Statements are in lists. Expressions, most of the tree, have no docstrings.
        nodes += [
            one for name in ("body", "orelse", "handlers", "finalbody", "cases") for one in getattr(node, name, [])
        ]
        if isinstance(node, documented):
            found.append(ast.get_docstring(node) or "")
    return "\n".join(found)


@cache
def documents() -> list[tuple[str, str]]:
    """The name and the text of every Markdown file, and of the docstrings of every Python file."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in sorted(FILES) if name.endswith((".md", ".py"))}
    return [(name, docstrings(text) if name.endswith(".py") else text) for name, text in texts.items()]


def is_there(path: str) -> bool:
    """Whether a path, or a path below some folder of the repository, is tracked."""
    return f"/{path.rstrip('/')}" in ENDS


@cache
def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module, or names something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = "src/" + "/".join(parts[:length])
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if name in FILES:
                text = (ROOT / name).read_text(encoding="utf-8")
                return all(re.search(rf"\b{part}\b", text) for part in parts[length : length + 1])
    return False


def missing_paths(name: str, text: str) -> list[str]:
    """The paths in backquotes that are not tracked."""
    cited = (path for path in PATH.findall(text) if path.endswith(SUFFIXES) and path not in NOT_OURS)
    return [f"{name}: {path}" for path in cited if not is_there(path)]


def missing_links(name: str, text: str) -> list[str]:
    """The targets of Markdown links that are not tracked."""
    targets = (target for target in LINK.findall(text) if "://" not in target)
    return [
        f"{name}: {target}" for target in targets if os.path.normpath(Path(name).parent / target) not in FILES | FOLDERS
    ]


def missing_modules(name: str, text: str) -> list[str]:
    """The dotted names in backquotes that are no module, and no name in one."""
    short = [module for module in SHORT.findall(text) if not is_module(f"tolerant.{module}")]
    return [f"{name}: {module}" for module in [*(m for m in MODULE.findall(text) if not is_module(m)), *short]]


def documents_elsewhere(name: str, text: str) -> list[str]:
    """Mentions of documents that are not in the repository."""
    return [f"{name}: {mention}" for mention in ELSEWHERE.findall(text)]


def missing_targets(name: str, text: str) -> list[str]:
    """The `make` targets that the Makefile does not have."""
    return [f"{name}: make {target}" for target in TARGET.findall(text) if target not in TARGETS]


def test_cited_files_are_in_the_repository() -> None:
    assert [missing for name, text in documents() for missing in missing_paths(name, text)] == []


def test_links_lead_to_files_of_the_repository() -> None:
    pages = [(name, text) for name, text in documents() if name.endswith(".md")]
    assert [missing for name, text in pages for missing in missing_links(name, text)] == []


def test_cited_modules_exist() -> None:
    assert [missing for name, text in documents() for missing in missing_modules(name, text)] == []


def test_no_document_outside_the_repository_is_mentioned() -> None:
    names = [name for name in sorted(FILES) if name.endswith((".md", ".py")) and name != "tests/test_citations.py"]
    texts = [(name, (ROOT / name).read_text(encoding="utf-8")) for name in names]
    assert [mention for name, text in texts for mention in documents_elsewhere(name, text)] == []


def test_cited_make_targets_exist() -> None:
    hooks = (".pre-commit-config.yaml", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [missing for name, text in [*documents(), hooks] for missing in missing_targets(name, text)] == []


def test_what_is_not_there_is_noticed() -> None:
    right = (
        "`src/tolerant/filters/`, `filters/beliefs.py`, [log](log.md), `tolerant.filters.Coordinator`, `make check`, "
        "`spark.runner`, `spark.io.encryption.enabled`"
    )
    wrong = (
        "`filters/believes.py`, `eliefs.py`, [log](logs.md), `tolerant.nothing.Coordinator`, `make chekc`, "
        "`spark.runners`, the spec"
    )
    checks = (missing_paths, missing_links, missing_modules, missing_targets, documents_elsewhere)
    assert [check("docs/page.md", right) for check in checks] == [[], [], [], [], []]
    assert [check("docs/page.md", wrong) for check in checks] == [
        ["docs/page.md: filters/believes.py", "docs/page.md: eliefs.py"],
        ["docs/page.md: logs.md"],
        ["docs/page.md: tolerant.nothing.Coordinator", "docs/page.md: spark.runners"],
        ["docs/page.md: make chekc"],
        ["docs/page.md: the spec"],
    ]
