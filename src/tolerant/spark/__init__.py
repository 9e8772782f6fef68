"""Puts cores to work on Spark Structured Streaming: session, source, host, sink, the runner of `tolerant run`.

A pipeline is log → source → shards → sink → log (`start`); what it hosts is any `Hosted` core, one file a kind of query
in `kinds/`. Names are imported when they are asked for: shards do without Spark, and the process that starts Spark's
workers (`daemon`) must not load anything that starts threads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted, Output, Replayed
    from tolerant.spark.java import JavaNotFound
    from tolerant.spark.pipeline import Pipeline, PipelineSpec, start
    from tolerant.spark.pipeline_handle import PipelineHandle
    from tolerant.spark.runner import PipelineFailed, Runner

_ELSEWHERE = {
    "Hosted": "hosting",
    "JavaNotFound": "java",
    "Output": "hosting",
    "Pipeline": "pipeline",
    "PipelineSpec": "pipeline",
    "PipelineHandle": "pipeline_handle",
    "PipelineFailed": "runner",
    "Replayed": "hosting",
    "Runner": "runner",
    "start": "pipeline",
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
    if name in _ELSEWHERE:
        return getattr(import_module(f"tolerant.spark.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
