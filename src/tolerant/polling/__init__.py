"""Polling: ask only for what is worth asking.

Many sources answer only when asked. A query says how wrong its answer may be and what fraction of the time it must be
that right; the poller decides tick by tick which items to ask for, so that every query keeps its promise with the
fewest pulls. `Poller` decides live, `simulate` runs the same over a recorded trace, `choose` is one choice of it,
`Chain` the model of one item.
"""

from tolerant.polling.answers import PolledAnswer
from tolerant.polling.chain import Chain
from tolerant.polling.choose import choose
from tolerant.polling.poller import Poller
from tolerant.polling.products import Products
from tolerant.polling.simulate import Run, Windows, simulate

__all__ = ["Chain", "PolledAnswer", "Poller", "Products", "Run", "Windows", "choose", "simulate"]
