"""Reproduces the figures and tables of the papers on Spark: one folder per paper or chapter, one file per figure.

A file declares `EXPERIMENT = Experiment(figure, claim, grid, measure, judge, chart)`: the figure, the paper's claim,
the parameter sets, a function from one parameter set to rows, and a verdict on all rows. The harness distributes the
parameter sets as a Spark job and writes the JSON, the picture and the verdict; `tolerant reproduce NAME` runs it. A
good experiment states the claim before it measures, and reports a claim that is not reproduced as plainly as one that
is. Each folder's README.md cites its paper and lists figure, module and verdict.
"""

from tolerant.experiments.harness import Chart, Experiment, Result, Row, Verdict, load, names, run

__all__ = ["Chart", "Experiment", "Result", "Row", "Verdict", "load", "names", "run"]
