"""100,000 standing band joins while both tables change, on Spark: rows per second against a job that joins each
micro-batch with the table of queries by Spark SQL.

The bands of `docs/design/joins.md` §5, around 60 centres; 100,000 rows in each table, b uniform. All else is as in
`joins_on_spark.py`. Spark SQL has no join for bands, and a range join of all with all would not come to an end: the
plain job takes the differences of all pairs of rows and looks up, by hash, the queries whose band reaches the cell that
a difference falls into.
"""

from __future__ import annotations

from joins_loads import band_load
from joins_on_spark import Template, measure
from side_by_side import arguments

CLOSE = "SELECT * FROM r JOIN s ON s.b - r.b BETWEEN low AND high"


def main() -> None:
    quick = arguments(__doc__ or "").quick
    load = band_load(10_000 if quick else 100_000, 1, 0)
    template = Template(CLOSE, {"low": load.low, "high": load.high}, None, ("bands",), True)
    measure("joins-bands-on-spark", template, quick)


if __name__ == "__main__":
    main()
