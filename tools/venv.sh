#!/bin/sh
# Makes .venv with Tolerant, its pinned dependencies and, where the system has no Java 17 or later, a Java from PyPI.
# Last it compiles the demo's hot loops and keeps Spark's classes in an archive, so that the first start is quick.
# PYTHON chooses the interpreter. Otherwise: the newest of python3.13 … python3.11 on the path, then python3.14, then python3.
set -eu
cd "$(dirname "$0")/.."

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        fits "$PYTHON" || { echo "PYTHON=$PYTHON is not a Python of 3.11 or later." >&2; exit 1; }
        echo "$PYTHON"
        return
    fi
    for candidate in python3.13 python3.12 python3.11 python3.14 python3 python; do
        if fits "$candidate"; then echo "$candidate"; return; fi
    done
    echo "No Python of 3.11 or later was found. Install one, or say where it is: make venv PYTHON=/path/to/python3" >&2
    exit 1
}

# Debian and Ubuntu leave ensurepip out of their python3. A pip of the system can serve in its place; so can uv.
make_venv() {
    if "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        "$1" -m venv .venv
    elif "$1" -m pip --version >/dev/null 2>&1 && "$1" -c 'import venv' >/dev/null 2>&1; then
        "$1" -m venv --without-pip .venv
        "$1" -m pip --quiet --python .venv/bin/python install pip
    elif command -v uv >/dev/null 2>&1; then
        uv venv --quiet --seed --python "$1" .venv
    else
        version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "$1 cannot make a virtual environment: its module ensurepip is missing." >&2
        echo "On Debian or Ubuntu: apt install python$version-venv. Then run make again." >&2
        exit 1
    fi
}

system_java() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [ "${major:-0}" -ge 17 ]
}

python=$(find_python)
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "Making .venv with $("$python" --version) ($python)"
    rm -rf .venv
    make_venv "$python"
fi
extras=$(sed -n 's/^all = .*\[\(.*\)\]"\]$/\1/p' pyproject.toml) # ends with java
if system_java; then extras=${extras%,java}; fi
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$@"; }
echo "Installing Tolerant and what it needs (once; a few minutes on a slow line)"
install --upgrade pip # the one that came with Python may not know dependency groups yet, which are younger than it
install --group dev --editable ".[$extras]"
echo "Compiling the hot loops, and making Spark quick to start (once; about a minute)"
.venv/bin/python -m tolerant.demo.prepare
touch .venv/.installed
