"""Runs the chain on a log until it is killed: `python hosting_child.py LOG CHECKPOINT`."""

import sys

from chain_core import Chain

from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.transport import open_log

if __name__ == "__main__":
    log, directory = sys.argv[1:]
    start(session(), open_log(log), PipelineSpec("test", ["updates.s"], Chain), directory, "c").wait()
