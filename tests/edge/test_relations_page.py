"""The page about relations is true: its statements are accepted, and its program does what its remarks say."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from tolerant.relations import RangeSelection, Relation
from tolerant.sql import (
    Catalogue,
    Subscribe,
    column_ranges,
    encode,
    parameter_types,
    parse_many,
    subscription_row,
)
from tolerant.transport import SqliteLog
from tolerant.transport.changes import read_changes
from tolerant.transport.rows import STATEMENTS, unpack
from tolerant.transport.subscriptions import read_subscription_rows

PAGE = Path(__file__).parents[2] / "docs" / "relations.md"
BLOCKS = re.findall(r"^```(sql|python)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log, catalogue = SqliteLog(tmp_path / "log.db", create=True), Catalogue()
    (_, first), (_, program), (_, later) = BLOCKS
    statements = parse_many(first, catalogue)
    for statement in statements:
        assert catalogue.apply(statement).changed
        row = {"kind": statement.kind, "key": statement.about, "request": "", "text": "", "body": encode(statement)}
        log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))
    exec(compile(program, PAGE.name, "exec"), {})
    table, area = catalogue.tables["stock"], catalogue.queries["area"]
    selection, relation, told = RangeSelection(column_ranges(area, table)), Relation(table.columns), []
    (subscribe,) = (statement for statement in statements if isinstance(statement, Subscribe))
    _, ids, ends = read_subscription_rows(subscription_row(subscribe, area, table), parameter_types(area, table))
    assert selection.add_many(ids, ends).all()
    for entry in log.read("changes.stock"):
        effect = relation.apply(read_changes(unpack(entry.payload), table.columns).changes)
        rows, _ = selection.matching(effect.columns)
        told += [(bool(effect.insert[row]), effect.row(row)["id"]) for row in np.unique(rows).tolist()]
    assert told == [(True, 7), (False, 7), (True, 8), (True, 9)]
    for statement in parse_many(later, catalogue):
        assert catalogue.apply(statement).accepted
    log.close()
