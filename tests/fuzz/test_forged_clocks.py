"""Forged clock rows far ahead of time, again and again: time goes on as the true ones say, and answers stay true."""

import pytest
from stages import STAGES
from test_table_shard import STOCK

from tolerant.streams import SECOND
from tolerant.transport.changes import clock_row
from tolerant.transport.rows import clock_batch, pack

DAY = 24 * 3600 * SECOND
TOPICS = {
    "bounded": "updates.traffic",
    "adaptive": "updates.traffic",
    "summed": "updates.traffic",
    "polled": "updates.quotes",
    "networked": "updates.prices",
    "tables": "changes.stock",
}


@pytest.mark.parametrize("checkpoint", ["", "checkpoint"])
@pytest.mark.parametrize("name", TOPICS)
def test_single_clock_rows_far_ahead_disturb_nothing(name, checkpoint):
    stage = STAGES[name](7)
    for step in range(40):
        ahead = (2 * 60 * SECOND, DAY, 365 * DAY, 3000 * DAY)[step % 4]
        make = (lambda *row: clock_row(STOCK.columns, *row)) if name == "tables" else clock_batch
        stage.put(TOPICS[name], pack(make(stage.now + ahead, 1, checkpoint)))
        stage.step()  # checks what is settled against the truth
        assert stage.is_sound
    stage.finish()
    assert stage.is_sound
