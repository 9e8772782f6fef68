import time

import pytest

from tolerant.demo.pipeline import DemoPipeline
from tolerant.demo.report import save
from tolerant.demo.run import perform
from tolerant.demo.traffic import Shape


@pytest.mark.spark
def test_a_short_demo_on_spark(tmp_path):
    shape = Shape(ticks=80, hosts=2, sources=2)
    pipeline = DemoPipeline(tmp_path, "local[2]", shape)
    outcome = perform(tmp_path, shape, lambda log: pipeline, began=time.time())
    assert outcome.audit.violations == 0
    assert outcome.audit.checks > 0
    data, picture = save(outcome, tmp_path / "out")
    assert data.exists()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_pipeline_that_ends_says_why(tmp_path):
    (tmp_path / "log.db").write_text("this is no log at all, and long enough to be seen as one" * 100)
    pipeline = DemoPipeline(tmp_path, "local[2]", Shape())
    pipeline._process.wait(60)
    with pytest.raises(RuntimeError, match="exit code 1"):
        pipeline.check()
    pipeline.stop()
