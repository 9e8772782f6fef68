"""The Java helper in the package was built from the source beside it."""

import hashlib
import zipfile
from pathlib import Path

import tolerant.spark

JARS = Path(tolerant.spark.__file__).parent / "jars"


def test_the_jar_was_built_from_its_source() -> None:
    with zipfile.ZipFile(JARS / "local-files.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "")
        assert {"tolerant/LocalFiles.class", "tolerant/LocalFiles$Raw.class"} <= set(jar.namelist())
    source = hashlib.sha256((JARS / "LocalFiles.java").read_bytes()).hexdigest()
    assert f"Source-SHA-256: {source}" in manifest, "run `make jar`"
