"""The seeds' figures and tables, each run again on Spark: one file a figure.

A file here declares `EXPERIMENT = Experiment(figure, claim, grid, measure, judge, chart)`: what it reproduces, what
must come out, the parameter sets, a function from one of them to rows, and a judgement of all rows. The harness
distributes the parameter sets as a Spark job and makes the JSON, the picture and the verdict; `tolerant reproduce
NAME` runs it. A good experiment states the claim before it looks, and reports where it does not hold as plainly as
where it does.
"""

from tolerant.experiments.harness import Chart, Experiment, Result, Row, Verdict, load, names, run

__all__ = ["Chart", "Experiment", "Result", "Row", "Verdict", "load", "names", "run"]
