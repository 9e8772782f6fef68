"""A local pipeline of a table with queries of several kinds."""

from tolerant.testing import LocalPipeline

STATEMENTS = """
CREATE TABLE stock (id BIGINT, x DOUBLE, n BIGINT, name STRING) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY wide(first, last) AS SELECT * FROM stock WHERE n BETWEEN first AND last;
CREATE QUERY least(low, high) AS SELECT MIN(x) FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY total(low, high) AS SELECT SUM(x) FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY kinds(low, high) AS SELECT DISTINCT name FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY counted(first, last) AS SELECT COUNT(*) FROM stock WHERE n BETWEEN first AND last;
"""


class TablePipeline(LocalPipeline):
    """The table `stock` with queries over it."""

    def __init__(self, log=None):
        super().__init__(STATEMENTS, log=log, now=1_000_000_000)

    def put(self, key, x, n=0, name="a"):
        self.table().update(id=key, x=x, n=n, name=name)

    def replay(self):
        """Begin again from an empty checkpoint: everything is published again."""
        self.shard, self.position = self.new_shard(), 0
        self.read()
