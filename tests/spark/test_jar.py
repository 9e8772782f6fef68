"""The Java helpers in the package were built from the sources beside them."""

import hashlib
import zipfile
from pathlib import Path

import tolerant.spark

JARS = Path(tolerant.spark.__file__).parent / "jars"


def test_the_jar_was_built_from_its_sources() -> None:
    with zipfile.ZipFile(JARS / "tolerant.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "")
        assert {"tolerant/LocalFiles.class", "tolerant/LocalFiles$Raw.class", "tolerant/Running.class"} <= set(
            jar.namelist()
        )
    sources = [(JARS / name).read_bytes() for name in ("LocalFiles.java", "Running.java")]
    source = hashlib.sha256(b"".join(sources)).hexdigest()
    assert f"Source-SHA-256: {source}" in manifest, "run `make jar`"
