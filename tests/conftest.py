"""What holds for all tests: no deadlines, how many examples Hypothesis tries, which file runs when and on which worker,
and what has to stand before the first Java starts, which serves all tests of a process, whoever asks for it first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from running_order import FAST, LONGEST, QUICK, SESSION

# Machines are noisy: how long an example takes is not what is tested. Examples differ from run to run.
hypothesis.settings.register_profile("fast", deadline=None, max_examples=FAST)  # `make test-fast`
hypothesis.settings.register_profile("quick", deadline=None, max_examples=QUICK)  # `make test`
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)  # `make soak`
hypothesis.settings.load_profile(os.environ.get("TOLERANT_PROFILE", "quick"))

# Spark's workers can import what lies beside the Spark tests.
_beside = str(Path(__file__).parent / "spark")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_beside, os.environ.get("PYTHONPATH")]))

# Java that compiles a little less: its sessions here last a minute, and are done before the full compiler has paid off.
# With room for what it compiles: with that compiler alone there are 48 MB, which the tests of views fill.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files, and let no test try more examples than the profile says, whatever number it asks for."""
    place = {path: number for number, path in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(_path(item.nodeid), len(place)))
    most = hypothesis.settings.default.max_examples
    for item in items if most <= QUICK else ():
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        asked = getattr(test, "_hypothesis_internal_use_settings", None)
        if asked is not None and asked.max_examples > most and not item.get_closest_marker("soak"):
            test._hypothesis_internal_use_settings = hypothesis.settings(asked, max_examples=most)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler that keeps a file on one worker, and all files that use a session on the same one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # not by the number of tests: by the order that they have here

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = _path(nodeid)
            return "session" if path in SESSION else path

    return Scheduling(config, log)


def _path(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]
