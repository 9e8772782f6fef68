"""An entry that breaks its shard, on Spark: the pipeline goes on without it, and a replay says what it said."""

import threading
import time
from typing import Any

import pytest
from poisonous import POISON, Poisonous

from tolerant.client import Client, StatementClient
from tolerant.edge import Source
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.spark.runner import Runner
from tolerant.sql import parse
from tolerant.transport import open_log
from tolerant.transport.quarantine import bodies, marked, quarantined
from tolerant.transport.rows import unpack
from tolerant.transport.topics import EPOCHS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STREAM = "CREATE STREAM s (item STRING, v DOUBLE) KEY (item) WITH (policy = 'adaptive')"
QUERY = "CREATE QUERY total AS SELECT SUM(v) FROM s WITHIN 4"


def wait(condition, runner, source, values):
    """Until the condition holds, let a source send; what the pipeline said is the error otherwise."""
    deadline = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < deadline, runner
        assert not runner["error"], runner
        values["a"] = (values["a"] + 1.0) % 30
        source.set_many(list(values), list(values.values()))
        time.sleep(0.2)


@pytest.mark.parametrize("kills", [False, True])
def test_a_pipeline_goes_on_without_the_entry_that_breaks_it(spark, tmp_path, kills):
    log = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    for text in (STREAM, QUERY):
        StatementClient(log).send(parse(text))
    seen: dict[str, Any] = {"told": [], "error": None}

    def make(stream, epoch, checkpoint):
        return Poisonous(stream, epoch, checkpoint, kills)

    runner = Runner(log, tmp_path / "checkpoints", factory=make, tell=seen["told"].append)

    def work():
        try:
            with runner:
                runner.run()
        except Exception as error:
            seen["error"] = error

    thread = threading.Thread(target=work)
    thread.start()

    def settled_after(moment):
        return any(answer.settled and answer.at > moment for answer in Client(log).current("total"))

    try:
        with Source("s", log, name="one", timeout=60) as source:
            values = {"a": 0.0, "b": 5.0}
            wait(lambda: settled_after(0), seen, source, values)
            source.set_many(["b"], [POISON])
            values["b"] = POISON + 1.0
            wait(lambda: quarantined(log, "s"), seen, source, values)
            moment = time.time_ns() // 1000
            wait(lambda: settled_after(moment), seen, source, values)
            (answer,) = Client(log).current("total")
            # `b` is at POISON + 1 and `a` between 0 and 30; without the next value of `b` the sum would be about 35.
            assert POISON + 1.0 - 4 <= answer.value <= POISON + 31.0 + 4
    finally:
        runner.stop()
        thread.join(120)
    assert seen["error"] is None
    (skipped,) = quarantined(log, "s")
    assert "b" in {row.key for row in skipped.rows}
    assert [("QUARANTINED" in text) for text in seen["told"]].count(True) == 1
    assert skipped.reason == ("the Python worker died" if kills else "ZeroDivisionError: a bug")
    check_replay(log)


def check_replay(log):
    """A pipeline without the bug that reads the log from its beginning says the same, up to where this one came."""
    said = [row for entry in log.read("answers.total") for row in unpack(entry.payload).to_pylist()]
    owner = log.latest(EPOCHS, "pipeline/s")
    stream = parse(STREAM).stream
    shard = BoundedShard(stream, 0, owner.version, owner.body.decode())
    outputs = shard.apply(marked(log.read(["queries", "updates.s"]), bodies(log, "s")))
    again = [row for output in outputs if output.topic == "answers.total" for row in unpack(output.payload).to_pylist()]
    assert len(said) > 5
    assert again[: len(said)] == said
