from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tolerant.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of all Spark tests. Its workers can import what lies beside this file."""
    started = session("local[2]", app="tests", worker_log=tmp_path_factory.mktemp("spark") / "workers.log")
    yield started
    started.stop()
