"""A pipeline without Spark: the shard itself, fed from the log and writing to it, as the real one does."""

import time

import pytest

from tolerant.client import StatementClient
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.rows import clock_batch

STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);"
QUERY = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5;"


class Pipeline:
    """One shard of `traffic` on a log in `folder`."""

    def __init__(self, folder):
        self.uri = f"sqlite:///{folder}/log.db"
        self.log = open_log(self.uri, create=True)
        self.now = time.time_ns() // 1000 // (10 * SECOND) * 10 * SECOND
        self.say(STREAM)
        stream = StatementClient(self.log).parse(STREAM)[0].stream
        self.shard = BoundedShard(stream, 0, 1, "test")
        self.position = 0

    def say(self, text):
        StatementClient(self.log).register(text)

    def tick(self, seconds=1.0):
        """Time passes, and the pipeline takes what is in the log."""
        self.now += int(seconds * SECOND)
        self.log.append("updates.traffic", clock_batch(self.now))
        self.work()

    def work(self):
        entries = self.log.read(["updates.traffic", "queries"], self.position)
        self.log.append_packed([(output.topic, output.payload) for output in self.shard.apply(entries)])
        self.position = entries[-1].position if entries else self.position


@pytest.fixture
def pipeline(tmp_path):
    made = Pipeline(tmp_path)
    yield made
    made.log.close()


@pytest.fixture
def traffic(pipeline):
    """Two hosts that have sent values, a query over them, and a boundary that has passed."""
    from tolerant.edge import Source

    with Source("traffic", pipeline.log, name="test", clock=lambda: pipeline.now) as source:
        source.set_many([("web-1", "in"), ("web-2", "in"), ("web-1", "out")], [10.0, 20.0, 5.0])
        source.advance()
        pipeline.tick()
        pipeline.say(QUERY)
        for second in range(25):
            pipeline.tick()
            source.set(("web-1", "in"), 10.0 + 4.0 * (second % 3))
            source.advance()
        pipeline.tick()
    return pipeline
