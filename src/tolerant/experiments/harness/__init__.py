"""Runs an experiment as a Spark job and writes its rows as JSON, a picture and the verdict on its claim."""

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.harness.job import run
from tolerant.experiments.harness.registry import load, names
from tolerant.experiments.harness.result import Result

__all__ = ["Chart", "Experiment", "Result", "Row", "Verdict", "load", "names", "run"]
