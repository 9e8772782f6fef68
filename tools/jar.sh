#!/bin/sh
# Rebuilds src/tolerant/spark/jars/local-files.jar from LocalFiles.java, with a JDK of 17 or later. The manifest holds the
# SHA-256 of the source, by which a test sees a jar that is older than its source.
set -eu
cd "$(dirname "$0")/../src/tolerant/spark/jars"
spark=$(../../../../.venv/bin/python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
javac --release 17 -classpath "$spark/*" -d "$build/classes" LocalFiles.java
echo "Source-SHA-256: $(sha256sum LocalFiles.java | cut -d' ' -f1)" > "$build/manifest"
jar --create --date=2020-01-01T00:00:00+00:00 --file local-files.jar --manifest "$build/manifest" -C "$build/classes" .
