#!/bin/sh
# Rebuilds src/tolerant/spark/jars/tolerant.jar from the sources beside it, with a JDK of 17 or later. The manifest holds
# the SHA-256 of the sources, by which a test sees a jar that is older than they are.
set -eu
cd "$(dirname "$0")/../src/tolerant/spark/jars"
spark=$(../../../../.venv/bin/python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
javac --release 17 -classpath "$spark/*" -d "$build/classes" LocalFiles.java Running.java
echo "Source-SHA-256: $(cat LocalFiles.java Running.java | sha256sum | cut -d' ' -f1)" > "$build/manifest"
jar --create --date=2020-01-01T00:00:00+00:00 --file tolerant.jar --manifest "$build/manifest" -C "$build/classes" .
