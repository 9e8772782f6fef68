"""A table and its pipeline in one process, without Spark: the shard itself, fed from the log and writing to it."""

import threading

from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.transport import MemoryLog
from tolerant.transport.changes import clock_row

STATEMENTS = """
CREATE TABLE stock (id BIGINT, x DOUBLE, n BIGINT, name STRING) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY wide(first, last) AS SELECT * FROM stock WHERE n BETWEEN first AND last;
CREATE QUERY least(low, high) AS SELECT MIN(x) FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY total(low, high) AS SELECT SUM(x) FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY kinds(low, high) AS SELECT DISTINCT name FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY counted(first, last) AS SELECT COUNT(*) FROM stock WHERE n BETWEEN first AND last;
"""


class TablePipeline:
    """`stock` on a log of its own; time passes when `tick` is called."""

    def __init__(self, log=None, statements=STATEMENTS):
        self.log = MemoryLog() if log is None else log
        self.now = 1_000_000_000
        StatementClient(self.log).register(statements)
        self.definition = StatementClient(MemoryLog()).parse(statements)[0]
        self.table = Table(self.definition, self.log, "shop", clock=lambda: self.now)
        self._shard, self._position = TableShard(self.definition), 0
        self._turn = threading.Lock()

    def put(self, key, x, n=0, name="a"):
        self.table.update(id=key, x=x, n=n, name=name)

    def tick(self):
        """A second passes: everything said before counts."""
        self.table.flush()
        self.now += 1_000_000
        self.log.append("changes.stock", clock_row(self.definition.columns, self.now, 1, "checkpoint"))
        self.step()

    def step(self):
        """Take what is in the log."""
        with self._turn:
            entries = self.log.read(["queries", "changes.stock", "subscriptions.stock"], self._position)
            if entries:
                self._position = entries[-1].position
                outputs = self._shard.apply(entries)
                self.log.append_packed([(output.topic, output.payload) for output in outputs])

    def restart(self):
        """Begin anew on an empty checkpoint: everything is said again."""
        self._shard, self._position = TableShard(self.definition), 0
        self.step()

    def in_background(self):
        """A thread that takes what is in the log until the event given back is set."""
        over = threading.Event()

        def work():
            while not over.wait(0.01):
                self.step()

        threading.Thread(target=work, daemon=True).start()
        return over
