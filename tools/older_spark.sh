#!/bin/sh
# Runs live tests of a stream, a table and a view on another release of Spark: tools/older_spark.sh 4.2.1
# The release is in a virtual environment of its own, out/spark-<release>; all else is pinned as in .venv.
set -eu
cd "$(dirname "$0")/.."
release=$1
environment=out/spark-$release
if [ ! -e "$environment/.installed" ]; then
    echo "Making $environment"
    .venv/bin/python -m venv "$environment"
    grep -v '^pyspark==' constraints.txt > "$environment/constraints.txt"
    install() { "$environment/bin/python" -m pip install --quiet --constraint "$environment/constraints.txt" "$@"; }
    install --upgrade pip
    install --group dev --editable ".[all]" "pyspark==$release"
    touch "$environment/.installed"
fi
"$environment/bin/python" -c "import pyspark; assert pyspark.__version__ == '$release', pyspark.__version__"
exec env MPLBACKEND=Agg "$environment/bin/python" -m pytest -q -n 0 \
    tests/spark/test_live.py::test_a_life tests/spark/test_live_tables.py tests/spark/test_live_views.py
