"""Files of statements, registered as `tolerant run FILE` registers them: the processor time per file, and its growth.

A file has a table, half as many queries over its rows as it has statements, and as many subscriptions. Every statement
is checked against the catalogue of the log; a file of twice the size should take twice the time, not four times.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path

from side_by_side import Figure, arguments, report
from tolerant.cli.run import _register
from tolerant.transport import open_log

TABLE = "CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);\n"
QUERY = "CREATE QUERY area_{0}(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;\n"
SUBSCRIPTION = "SUBSCRIBE area_{0}(0.0, 1.0);\n"


def main() -> None:
    sizes = (50, 100, 200) if arguments(__doc__ or "").quick else (200, 400, 800)
    seconds = {size: min(register(size) for _ in range(3)) for size in (10, *sizes)}  # the first one loads the parser
    figures = [Figure(f"{size} statements", seconds[size], "s") for size in sizes]
    figures += [
        Figure(f"{large} against {small} statements", seconds[large] / seconds[small], "×")
        for small, large in pairwise(sizes)
    ]
    report("statement-files", {"queries per subscription": 1}, figures)


def register(size: int) -> float:
    """The seconds of processor time that a file of so many statements takes on a new log."""
    numbers = range(size // 2)
    text = TABLE + "".join(map(QUERY.format, numbers)) + "".join(map(SUBSCRIPTION.format, numbers))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "statements.sql"
        file.write_text(text)
        log = open_log(f"sqlite:///{folder}/log.db", create=True)
        begun = time.process_time()
        _register(log, file)
        seconds = time.process_time() - begun
        log.close()
    return seconds


if __name__ == "__main__":
    main()
