"""What is prepared is what a run needs."""

import sys

from tolerant.client import load_catalogue
from tolerant.demo import prepare
from tolerant.demo.traffic import STREAM, Shape, generate, statements
from tolerant.kernels.compiled import LazyFunction
from tolerant.transport import MemoryLog


def signatures() -> dict[str, int]:
    """How often each compiled function of the package has been compiled or loaded, by its name."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tolerant.")]
    functions = {
        function for module in modules for function in vars(module).values() if isinstance(function, LazyFunction)
    }
    counts = {f"{f.__module__}.{f.__qualname__}": len(f.implementation.signatures) for f in functions}
    return {name: count for name, count in counts.items() if count}


def test_a_run_after_preparing_compiles_nothing():
    prepare.warm(Shape(ticks=30, hosts=1))
    before = signatures()
    assert {name.split(".")[1] for name in before} >= {"filters", "pipeline"}
    shape = Shape(ticks=40, hosts=3)
    log = MemoryLog()
    create, queries = statements(shape)
    prepare._say(log, create)
    prepare._play(log, load_catalogue(log).streams[STREAM], generate(shape), queries)
    assert signatures() == before
