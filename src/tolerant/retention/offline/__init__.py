"""Joins and caches of recorded streams: `join`, `cache`, and what only they and the experiments use."""
