"""The Spark session, set up as `docs/design/pipeline.md` §5 asks; each setting says what it is for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tolerant.spark.class_archive import archive_options, recording_options
from tolerant.spark.java import java_home
from tolerant.spark.phases import StartPhase
from tolerant.spark.worker_python import worker_python
from tolerant.transport.files import create_private, private_umask

_HERE = Path(__file__).parent
_JAR = {
    # LocalFiles and Running, see the sources in jars/. Spark sends it to executors on other machines.
    "spark.jars": str(_HERE / "jars" / "tolerant.jar"),
    "spark.driver.extraClassPath": str(_HERE / "jars" / "tolerant.jar"),
}
_FILES = {
    # Checkpoints and state on a local disk, without a `chmod` process for every file: see jars/LocalFiles.java.
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
_SECURITY = {
    # Processes of Spark prove to each other that they belong together, and what they send or spill is encrypted. On one
    # machine, on YARN and on Kubernetes Spark makes a new secret for each session itself, inside Java: one that was
    # given here would stand on Java's command line. A standalone cluster has its own, in conf/spark-defaults.conf.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
    # Hadoop sets the modes of checkpoint files itself, whatever the umask of the process.
    "spark.hadoop.fs.permissions.umask-mode": "077",
}
_ONE_MACHINE = {
    # The name of the machine may lead nowhere, on a laptop without a network say.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_LIGHT_JAVA = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java only hands our bytes on: on one machine, shared with the Python workers that do the work, a compiler and a
garbage collector that stay out of the way are worth more than the last bit of speed. Halves the first batches.

With that compiler alone Java would set aside 48 MB for what it compiles, and stop to compile when they are full, as
views filled them in an hour. 240 MB of addresses are what it sets aside for both compilers."""


def _on_a_network() -> dict[str, str]:
    """The driver listens on one address, which executors are told: `SPARK_LOCAL_IP`, or this machine's first that is
    not its own loopback.
    """
    address = os.environ.get("SPARK_LOCAL_IP") or _own_address()
    return {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _own_address() -> str:
    addresses = [own.address for many in psutil.net_if_addrs().values() for own in many if own.family == socket.AF_INET]
    return next((address for address in addresses if not address.startswith("127.")), "127.0.0.1")


def settings(master: str) -> dict[str, str]:
    """All that a session on this master is configured with."""
    local = master.startswith("local")
    log4j = (_HERE / "log4j2.properties").as_uri()
    return {
        **_PYTHON,
        **_QUIET,
        **_SECURITY,
        **_JAR,
        **(_ONE_MACHINE | _FILES | _SMALL if local else _on_a_network()),
        "spark.sql.shuffle.partitions": "1",
        # Spark's planner recurses deeply; the default stack overflows now and then, when a query is stopped above all.
        "spark.driver.extraJavaOptions": f"-Xss4m -Dlog4j2.configurationFile={log4j}{_LIGHT_JAVA if local else ''}",
    }


def session(
    master: str = "local[2]",
    app: str = "tolerant",
    worker_log: Path | None = None,
    inherited: int | None = None,
    recorded: Path | None = None,
) -> SparkSession:
    """The session of this process, made if there is none.

    `worker_log`: a file for what Python workers write to their standard output and error (PySpark's own report progress
    there); None: the terminal. What makes a batch fail is raised where the pipeline was started, in either case.
    `inherited`: an open file that the Java process keeps open as long as it lives. `recorded`: where Java writes the
    classes that it has loaded, when it ends (`class_archive`).

    Raises:
        JavaNotFound: there is no Java for it.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    python = str(worker_python()) if master.startswith("local") else sys.executable
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    configured = settings(master)
    if master.startswith("local"):  # others have another classpath, which the archive does not fit
        classes = archive_options(home) if recorded is None else recording_options(home, recorded)
        configured["spark.driver.extraJavaOptions"] += f" {classes}"
    configured = {"spark.master": master, "spark.app.name": app, **configured}
    with private_umask():  # Java's too, which it starts with
        with StartPhase("starting Java"):
            _start_java(configured, inherited)
        with StartPhase("making the session"):
            with _keeping_ctrl_c():  # no longer than necessary: it must not come while Spark has it
                SparkContext.getOrCreate(SparkConf().setAll(configured.items()))
            spark = SparkSession.builder.config(map=configured).getOrCreate()
    if worker_log is not None:
        with contextlib.suppress(FileExistsError):
            create_private(worker_log)
        java = spark.sparkContext._jvm.java
        java.lang.System.setErr(java.io.PrintStream(java.io.FileOutputStream(str(worker_log)), True))
    return spark


@contextlib.contextmanager
def _keeping_ctrl_c() -> Iterator[None]:
    """Leave Ctrl-C with whoever has it: Spark takes it, and raises in the middle of a call to Java."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _start_java(settings: Mapping[str, str], inherited: int | None) -> None:
    """Start the Java process of this one, unless there is one, in a session of its own.

    Ctrl-C, and a SIGTERM to all processes of a group, then reach this process alone, which stops Java and its Python
    workers in order. Java ends by itself when this process dies: it reads the end of its standard input.
    """
    if SparkContext._gateway is None:
        keep = () if inherited is None else (inherited,)
        conf = SparkConf().setAll(settings.items())
        gateway = launch_gateway(conf, {"start_new_session": True, "pass_fds": keep})
        SparkContext._ensure_initialized(gateway=gateway)


def end_java(patience: float = 60.0) -> None:
    """Stop the session and the Java process of this one, if there are any, and wait until it has ended.

    Raises:
        subprocess.TimeoutExpired: it does not end.
    """
    active, gateway = SparkSession.getActiveSession(), SparkContext._gateway
    if active is not None:
        active.stop()
    if gateway is not None:
        SparkContext._gateway = SparkContext._jvm = None
        gateway.proc.stdin.close()  # at which Java ends
        gateway.proc.wait(patience)
