"""What has to stand before the first Java starts: one serves all tests of a process, whoever asks for it first."""

import os
from pathlib import Path

# Spark's workers can import what lies beside the Spark tests.
_beside = str(Path(__file__).parent / "spark")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_beside, os.environ.get("PYTHONPATH")]))

# Java that compiles a little less: its sessions here last a minute, and are done before the full compiler has paid off.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
