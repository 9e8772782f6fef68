"""Functions in which no references are counted must get no arrays from those that they call: these would never be
freed.
"""

import ast
from pathlib import Path

import tolerant

ROOT = Path(tolerant.__file__).parent
SCALARS = {"int", "float", "bool", "None", "np.uint64", "np.uint8"}


def functions():
    """(module, name) → (decorator, what it returns, whom it calls) of all compiled functions."""
    found = {}
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        module = ".".join(["tolerant", *path.relative_to(ROOT).with_suffix("").parts])
        imported = {
            name.asname or name.name: (node.module, name.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef)
                and node.decorator_list
                and isinstance(node.decorator_list[0], ast.Name)
            ):
                called = [c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)]
                whom = [imported.get(name, (module, name)) for name in called]
                found[module, node.name] = (node.decorator_list[0].id, node.returns, whom)
    return found


def is_plain(returns):
    """Whether a function gives numbers only."""
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "tuple":
        parts = returns.slice.elts if isinstance(returns.slice, ast.Tuple) else [returns.slice]
        return all(is_plain(part) for part in parts)
    return returns is not None and ast.unparse(returns) in SCALARS


def test_who_borrows_gets_and_gives_no_arrays():
    everything = functions()
    compiled_no_refcount = {
        name: entry for name, entry in everything.items() if entry[0] in ("compiled_no_refcount", "inlined_no_refcount")
    }
    assert len(compiled_no_refcount) > 50
    for name, (_, returns, whom) in compiled_no_refcount.items():
        assert is_plain(returns), f"{name} returns {ast.unparse(returns)}"
        for other in whom:
            if other in everything and everything[other][0] in ("compiled", "inlined"):
                assert is_plain(everything[other][1]), f"{name} gets an array from {other}"


def test_what_is_plain():
    def of(text):
        return is_plain(ast.parse(f"def f() -> {text}: ...").body[0].returns)

    assert [of(text) for text in ("float", "tuple[float, int]", "None")] == [True] * 3
    assert [of(text) for text in ("Floats", "tuple[float, Floats]", "Plan")] == [False] * 3
