"""The soak of `test_payloads.py` for the shards of tables, in a file of its own so that both run side by side."""

from __future__ import annotations

import pytest
from stages import STAGES
from test_payloads import OF_STREAMS, feed_all


@pytest.mark.soak
@pytest.mark.timeout(0)  # each episode has its own deadline
@pytest.mark.parametrize("name", [name for name in STAGES if name not in OF_STREAMS])
def test_a_hundred_thousand_forged_payloads_of_each_kind_for_tables(name: str) -> None:
    feed_all(name)
