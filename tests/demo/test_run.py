"""The demo with a local pipeline in the place of Spark: everything else is as `tolerant demo` has it."""

import time

from tolerant.demo.run import perform
from tolerant.demo.traffic import Shape
from tolerant.testing import LocalPipeline


def test_a_short_demo_keeps_every_promise(tmp_path):
    shape = Shape(ticks=300, hosts=4, sources=2)
    shown = []
    outcome = perform(
        tmp_path,
        shape,
        lambda log: LocalPipeline(log=log, checkpoint="test").start(),
        began=time.time(),
        show=lambda moment: shown.append(moment.stage),
    )
    assert outcome.audit.violations == 0
    assert outcome.audit.checks > 300 * 5
    assert outcome.boundaries >= 30
    assert {answer.group for answer in outcome.answers if answer.query == "by_host"} == {
        "host-01",
        "host-02",
        "host-03",
        "host-04",
    }
    exact, uniform, predictive, real = outcome.costs
    assert exact.total >= uniform.total
    assert predictive.simulated
    assert not real.simulated
    assert real.messages["hello"] == 4 * 32
    assert {"starting Spark", "running"} <= set(shown)
    # What confirms the last plan may come after the last status.
    assert 0 <= real.total - outcome.samples[-1][1] <= real.messages["ack"]
