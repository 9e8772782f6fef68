"""What the shards of every kind of query share: reading entries, event time, statements, quarantine, partitioning.

Nothing here imports Spark: a shard is a function of the log, so it runs in a test or a simulator as it runs in a
pipeline.
"""
