"""What holds for all tests: no deadlines, and what has to stand before the first Java starts, which serves all tests
of a process, whoever asks for it first.
"""

import os
from pathlib import Path

import hypothesis

# Machines are noisy: how long an example takes is not what is tested.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# Spark's workers can import what lies beside the Spark tests.
_beside = str(Path(__file__).parent / "spark")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_beside, os.environ.get("PYTHONPATH")]))

# Java that compiles a little less: its sessions here last a minute, and are done before the full compiler has paid off.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
