"""Puts cores to work on Spark Structured Streaming: session, source, host, sink, the runner of `tolerant run`.

A pipeline is log → source → shards → sink → log (`start`); what it hosts is any `Hosted` core, one folder per kind of
query in `tolerant.kinds`. Names are imported when they are asked for: shards do without Spark, and the process that
starts Spark's workers (`daemon`) must not load anything that starts threads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted, Output, Replayed
    from tolerant.spark.java import JavaNotFound
    from tolerant.spark.pipeline import Pipeline, PipelineSpec, start
    from tolerant.spark.pipeline_handle import PipelineHandle
    from tolerant.spark.runner import PipelineFailed, Runner

_MODULES = {
    "Hosted": "tolerant.pipeline.hosting",
    "JavaNotFound": "tolerant.spark.java",
    "Output": "tolerant.pipeline.hosting",
    "Pipeline": "tolerant.spark.pipeline",
    "PipelineSpec": "tolerant.spark.pipeline",
    "PipelineHandle": "tolerant.spark.pipeline_handle",
    "PipelineFailed": "tolerant.spark.runner",
    "Replayed": "tolerant.pipeline.hosting",
    "Runner": "tolerant.spark.runner",
    "start": "tolerant.spark.pipeline",
}

__all__ = [
    "Hosted",
    "JavaNotFound",
    "Output",
    "Pipeline",
    "PipelineFailed",
    "PipelineHandle",
    "PipelineSpec",
    "Replayed",
    "Runner",
    "start",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
