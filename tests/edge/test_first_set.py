"""The first value that is set costs what the second does: everything is loaded when the source is made."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import gc, json, sys, time
from numba.core.dispatcher import Dispatcher
from tolerant.client import StatementClient
from tolerant.sql import parse
from tolerant.transport import open_log

def loaded():
    return sum(len(one.overloads) for one in gc.get_objects() if isinstance(one, Dispatcher))

uri, policy = sys.argv[1:]
log = open_log(uri, create=True)
StatementClient(log).send(parse(f"CREATE STREAM s (k STRING, v DOUBLE) KEY (k) WITH (policy = '{policy}')"))
StatementClient(log).send(parse("CREATE TABLE t (k STRING, v DOUBLE) KEY (k)"))
log.close()

from tolerant.edge import Source, Table
source, table = Source("s", uri, "here"), Table("t", uri, "here")
modules, functions = set(sys.modules), loaded()
source.set("a", 1.0)
handles = source.register(["b", "c"])
source.set_many(handles, [1.0, 2.0])
source.set("a", 5.0)
source.flush()
table.insert(k="a", v=1.0)
table.update(k="a", v=2.0)
table.delete("a")
table.flush()
print(json.dumps([sorted(set(sys.modules) - modules), loaded() - functions]))
source.close(), table.close()
"""


@pytest.mark.parametrize("policy", ["predictive", "adaptive", "uniform", "exact"])
def test_the_first_value_loads_nothing(tmp_path: Path, policy: str) -> None:
    uri = f"sqlite:///{tmp_path / 'log.db'}"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, uri, policy], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0]


_AGGREGATING = """
import gc, json, sys
from numba.core.dispatcher import Dispatcher
from tolerant.edge.aggregators import Aggregator
from tolerant.testing.networks import SimulatedNetwork
from tolerant.planning import Network

def loaded():
    return sum(len(one.overloads) for one in gc.get_objects() if isinstance(one, Dispatcher))

class Waiting(SimulatedNetwork):
    def _aggregate(self, name):
        if self.now > 1_005_000_000:
            if self.aggregators[name] is None:
                self.aggregators[name] = Aggregator("prices", name, self.log, clock=lambda: self.now)
                self.before = set(sys.modules), loaded()
            self.aggregators[name].step()

world = Waiting(1, Network({"D": {"p": 0.1, "q": 0.2}}), faults=False, queries=[])
world.run(5)
world.before = None
world.read = lambda: []
world.run(5)
modules, functions = world.before
print(json.dumps([sorted(set(sys.modules) - modules), loaded() - functions, world.aggregators["D"].sent > 0]))
"""


def test_the_first_step_of_an_aggregator_loads_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AGGREGATING], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0, True]
