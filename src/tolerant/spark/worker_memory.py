"""What a Python worker of Spark keeps in memory from batch to batch, and how the garbage collector treats it."""

from __future__ import annotations

import gc


def settle() -> None:
    """Call when a worker has loaded and built what it will keep: the garbage collector leaves that alone from then on.

    PySpark's workers collect after each task, over all objects that there are: 50 ms with the libraries alone. What is
    frozen is left out; it is still freed when its last reference goes.
    """
    gc.collect()
    gc.freeze()
