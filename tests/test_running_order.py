"""Files that use a Spark session of their own process are listed: one worker runs them all, and starts one Java."""

import ast
from pathlib import Path

from running_order import LONGEST, SESSION

ROOT = Path(__file__).parent.parent


def uses_a_session(program: str) -> bool:
    """Whether a test takes the fixture `spark`, or the file calls `session`; what subprocesses run does not count."""
    nodes = list(ast.walk(ast.parse(program)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    asking = [made for made in functions if made.name.startswith("test_") or made.decorator_list]
    calls = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return "session" in calls or any(taken.arg == "spark" for made in asking for taken in made.args.args)


def test_files_that_use_a_session_are_listed() -> None:
    programs = {str(file.relative_to(ROOT)): file.read_text() for file in ROOT.glob("tests/**/test_*.py")}
    found = {name for name, text in programs.items() if "spark" in text and uses_a_session(text)}
    soak = {name for name in found if "pytest.mark.soak" in programs[name]}
    assert found - soak == set(SESSION)


def test_files_that_begin_first_are_there() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
