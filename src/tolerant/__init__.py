"""Standing queries with a stated tolerance: every answer as right as asked, with the fewest messages, on Spark."""

__version__ = "0.1.0"
