"""Puts cores to work on Spark Structured Streaming: session, source, host, sink, the runner of `tolerant run`.

A pipeline is log → source → shards → sink → log (`start`); what it hosts is any `Hosted` core, one folder per kind of
query in `tolerant.kinds`. Names are imported when they are asked for: shards do without Spark, and the process that
starts Spark's workers (`daemon`) must not load anything that starts threads.
"""

from typing import TYPE_CHECKING

from tolerant.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolerant.pipeline.hosting import Hosted, Output
    from tolerant.spark.java import JavaNotFound
    from tolerant.spark.pipeline import Pipeline, PipelineSpec, start
    from tolerant.spark.pipeline_handle import PipelineHandle
    from tolerant.spark.runner import PipelineFailed, Runner

__all__ = [
    "Hosted",
    "JavaNotFound",
    "Output",
    "Pipeline",
    "PipelineFailed",
    "PipelineHandle",
    "PipelineSpec",
    "Runner",
    "start",
]

__getattr__ = lazy_names(
    __name__,
    {
        "tolerant.pipeline.hosting": ["Hosted", "Output"],
        "tolerant.spark.java": ["JavaNotFound"],
        "tolerant.spark.pipeline": ["Pipeline", "PipelineSpec", "start"],
        "tolerant.spark.pipeline_handle": ["PipelineHandle"],
        "tolerant.spark.runner": ["PipelineFailed", "Runner"],
    },
)
