"""Sessions are closed to others: authenticated, encrypted, bound to one address, their files private."""

import signal
import stat
from pathlib import Path

import psutil
import pytest

from tolerant.spark.session import session, settings


@pytest.mark.parametrize("master", ["local[2]", "local", "spark://somewhere:7077", "yarn", "k8s://https://somewhere"])
def test_every_master_is_authenticated_encrypted_and_bound(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    found = settings(master)
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert found[name] == "true"
    assert found["spark.hadoop.fs.permissions.umask-mode"] == "077"
    address = found["spark.driver.bindAddress"]
    assert address == found["spark.driver.host"]
    assert address not in ("", "0.0.0.0")
    if master.startswith("local"):
        assert address == "127.0.0.1"
    # What is given here stands on Java's command line, where everyone can read it.
    assert not [name for name in found if "secret" in name]


def test_the_address_that_is_given_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.7")
    assert settings("spark://somewhere:7077")["spark.driver.bindAddress"] == "192.0.2.7"
    assert settings("local[2]")["spark.driver.bindAddress"] == "127.0.0.1"


def test_java_has_room_for_what_it_compiles() -> None:
    """With its quick compiler alone there are 48 MB, which views fill; then Java stops compiling."""
    assert "-XX:ReservedCodeCacheSize=240m" in settings("local[2]")["spark.driver.extraJavaOptions"].split()


@pytest.mark.spark
def test_a_session_listens_to_itself_alone(tmp_path: Path) -> None:
    spark = session(worker_log=tmp_path / "workers.log")
    assert "pyspark" not in (
        getattr(signal.getsignal(signal.SIGINT), "__module__", None) or ""
    )  # Ctrl-C is not Spark's
    assert spark.conf.get("spark.authenticate") == "true"
    assert spark.range(10, numPartitions=2).mapInPandas(lambda batches: batches, "id long").count() == 10
    java = [child for child in psutil.Process().children(recursive=True) if "java" in child.name()]
    listening = {c.laddr.ip for child in java for c in child.net_connections() if c.status == psutil.CONN_LISTEN}
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert stat.S_IMODE((tmp_path / "workers.log").stat().st_mode) == 0o600
    # As checkpoints are written, through Hadoop, which sets modes itself.
    spark.range(3).write.parquet(f"{tmp_path}/folder/written")
    made = [tmp_path / "folder", *(tmp_path / "folder").rglob("*")]
    assert {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made} == {(True, 0o700), (False, 0o600)}
