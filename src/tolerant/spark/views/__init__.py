"""Views on Spark: tables' changes kept as append-only files, pushed into views by incremental SQL when the scheduler
(`tolerant.views`) says so.

`deltas` holds the changes, `maintained` pushes them through an `Engine`, `live` decides when, `pipeline` reads the log
and commits what comes of it. A pipeline is a loop in the driver, not a streaming query: whoever asks for a view must
not wait for a micro-batch as well.
"""
