import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tolerant.spark.session import session

# Java that compiles a little less: its sessions here last a minute, and are done before the full compiler has paid off.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of all Spark tests. Its workers can import what lies beside this file."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), before]))
    started = session("local[2]", app="tests", mutterings=tmp_path_factory.mktemp("spark") / "workers.log")
    yield started
    started.stop()
