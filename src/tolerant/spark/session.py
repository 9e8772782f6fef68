"""The Spark session, set up as `specs/0-pipeline.md` §5 asks; each setting says what it is for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tolerant.spark.java import java_home

_STATE = {
    # One store that holds more than memory and writes only what changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # State files carry the id of the run that wrote them: a batch that is run again cannot mix with its first try.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
_HERE = Path(__file__).parent
_FILES = {
    # Checkpoints and state on a local disk, without a `chmod` process for every file: see jars/LocalFiles.java.
    "spark.jars": str(_HERE / "jars" / "local-files.jar"),
    "spark.driver.extraClassPath": str(_HERE / "jars" / "local-files.jar"),
    "spark.hadoop.fs.file.impl": "tolerant.LocalFiles",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_PYTHON = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tolerant.spark.daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.ui.enabled": "false",
}
_SMALL = {
    # Spark sets aside a page of 16 MB or more for every small hash table, and blocks of 4 MB for everything that it
    # broadcasts. Our jobs are small and many: that garbage made Java stop for a fifth of a second at every other push
    # into a view. What is larger gets more pages and blocks.
    "spark.buffer.pageSize": "1m",
    "spark.broadcast.blockSize": "256k",
    # What the web page would show of jobs that have ended, which nobody sees.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "20",
}
_ONE_MACHINE = {
    # The name of the machine may lead nowhere, on a laptop without a network say.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_LIGHT_JAVA = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java only hands our bytes on: on one machine, shared with the Python workers that do the work, a compiler and a
garbage collector that stay out of the way are worth more than the last bit of speed. Halves the first batches."""


def session(
    master: str = "local[2]", shards: int = 1, app: str = "tolerant", mutterings: Path | None = None
) -> SparkSession:
    """The session of this process, made if there is none. `shards`: the shuffle partitions, hence shards, of pipelines.

    `mutterings`: a file for what Python workers write to their standard output and error (PySpark's own report progress
    there); None: the terminal. What makes a batch fail is raised where the pipeline was started, in either case.

    Raises:
        JavaNotFound: there is no Java for it.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    log4j = (_HERE / "log4j2.properties").as_uri()
    settings = {
        **_STATE,
        **_PYTHON,
        **_QUIET,
        **(_ONE_MACHINE | _FILES | _SMALL if local else {}),
        "spark.sql.shuffle.partitions": str(shards),
        # Spark's planner recurses deeply; the default stack overflows now and then, when a query is stopped above all.
        "spark.driver.extraJavaOptions": f"-Xss4m -Dlog4j2.configurationFile={log4j}{_LIGHT_JAVA if local else ''}",
    }
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if mutterings is not None:
        java = spark.sparkContext._jvm.java
        java.lang.System.setErr(java.io.PrintStream(java.io.FileOutputStream(str(mutterings)), True))
    return spark
