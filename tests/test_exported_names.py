"""What every package exports: `__all__` is in order, each name can be imported, and no table leaves one out."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
TREES = {
    ".".join(file.parent.relative_to(SOURCE).parts): ast.parse(file.read_text(encoding="utf-8"))
    for file in sorted(SOURCE.rglob("__init__.py"))
}


def exported(tree):
    """The names of `__all__`, None without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def lazy_table(tree):
    """The names that `lazy_names` imports on first use, by module; None where a package has no such table."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__getattr__":
            return ast.literal_eval(node.value.args[1])
    return None


def imported(tree):
    """The names that a package imports from ours, those for type checkers only too, by module."""
    blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
    nodes = [node for body in [tree.body, *blocks] for node in body if isinstance(node, ast.ImportFrom)]
    return {
        node.module: [name.asname or name.name for name in node.names]
        for node in nodes
        if node.module.startswith("tolerant.") and node.module != "tolerant.lazy_names"
    }


def rank(name):
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("package", [package for package, tree in TREES.items() if exported(tree) is not None])
def test_exported_names_are_sorted_importable_and_complete(package):
    tree = TREES[package]
    names, table, modules = exported(tree), lazy_table(tree), imported(tree)
    assert names == sorted(set(names), key=rank)
    module = import_module(package)
    assert [name for name in names if getattr(module, name, None) is None] == []
    if table is not None:
        assert {name: sorted(table[name]) for name in table} == {name: sorted(modules[name]) for name in modules}
        assert sorted(names) == sorted(name for listed in table.values() for name in listed)
    else:
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        own = [name for module, listed in modules.items() if module.startswith(f"{package}.") for name in listed]
        assert [name for name in own if name not in {*names, *used}] == []
