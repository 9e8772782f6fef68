"""A local pipeline of a stream, and one that has answered."""

import pytest

from tolerant.edge import Source
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);"
QUERY = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5;"


@pytest.fixture
def pipeline(tmp_path):
    """The pipeline of `traffic` on a log in a folder of its own, which has read nothing yet."""
    log = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    yield LocalPipeline(STREAM, log=log, now=wall_clock() // (10 * SECOND) * 10 * SECOND, checkpoint="test")
    log.close()


@pytest.fixture
def traffic(pipeline):
    """Two hosts that have sent values, a query over them, and an adjustment period that has ended."""
    with Source("traffic", pipeline.log, name="test", clock=lambda: pipeline.now) as source:
        source.set_many([("web-1", "in"), ("web-2", "in"), ("web-1", "out")], [10.0, 20.0, 5.0])
        source.advance()
        pipeline.tick()
        pipeline.send(QUERY)
        for second in range(25):
            pipeline.tick()
            source.set(("web-1", "in"), 10.0 + 4.0 * (second % 3))
            source.advance()
        pipeline.tick()
    return pipeline
