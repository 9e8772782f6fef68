"""The demo with one shard in a thread in the place of Spark: everything else is as `tolerant demo` has it."""

import threading
import time

from tolerant.client import load_catalogue
from tolerant.demo.run import perform
from tolerant.demo.traffic import STREAM, Shape
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.transport import open_log


class ShardInAThread:
    """Takes what is in the log, about as often as Spark would."""

    def __init__(self, uri, pause=0.05):
        self._log = open_log(uri, create=True)
        self._shard = BoundedShard(load_catalogue(self._log).streams[STREAM], 0, 1, "test")
        self._pause = pause
        self._over = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def check(self):
        if self._failure is not None:
            raise self._failure

    def stop(self):
        self._over.set()
        self._thread.join()
        self._log.close()

    def _run(self):
        position = 0
        try:
            while not self._over.wait(self._pause):
                entries = self._log.read([f"updates.{STREAM}", "queries"], position)
                if entries:
                    said = self._shard.apply(entries)
                    self._log.append_packed([(output.topic, output.payload) for output in said])
                    position = entries[-1].position
        except Exception as error:
            self._failure = error


def test_a_short_demo_keeps_every_promise(tmp_path):
    shape = Shape(ticks=300, hosts=4, sources=2)
    shown = []
    outcome = perform(
        tmp_path,
        shape,
        lambda log: ShardInAThread(log.uri),
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
