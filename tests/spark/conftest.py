from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tolerant.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of all Spark tests."""
    started = session("local[2]", app="tests")
    yield started
    started.stop()
