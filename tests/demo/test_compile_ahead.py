"""What is compiled ahead is what a run needs."""

import sys

from numba.core.dispatcher import Dispatcher

from tolerant.client import load_catalogue
from tolerant.demo import compile_ahead
from tolerant.demo.traffic import STREAM, Shape, generate, statements
from tolerant.transport import MemoryLog


def signatures() -> dict[str, int]:
    """How often each compiled function of the package has been compiled or loaded, by its name."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tolerant.")]
    functions = {
        function for module in modules for function in vars(module).values() if isinstance(function, Dispatcher)
    }
    return {f"{f.__module__}.{f.__qualname__}": len(f.signatures) for f in functions if f.signatures}


def test_a_run_after_compiling_ahead_compiles_nothing():
    compile_ahead.warm(Shape(ticks=30, hosts=1))
    before = signatures()
    assert {name.split(".")[1] for name in before} >= {"filters", "joins", "retention"}
    shape = Shape(ticks=40, hosts=3)
    log = MemoryLog()
    create, queries = statements(shape)
    compile_ahead._say(log, create)
    compile_ahead._play(log, load_catalogue(log).streams[STREAM], generate(shape), queries)
    assert signatures() == before
