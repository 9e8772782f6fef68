"""Polling: pull only the items whose values the queries need now [GPR05].

Many sources answer only when asked. A query states how wrong its answer may be (`within`) and for which fraction of
the time it must be that right (`fidelity`); the poller decides per tick which items to pull, so that every query keeps
its promise with the fewest pulls. `Poller` decides live, `simulate` runs the same decisions over a recorded trace,
`choose` makes one choice without a history, `Chain` is the model of one item. `PollingOptions` lists every keyword.

`model/` learns how items change, `choice/` picks the items to pull, `offline/` needs the whole trace and is for
experiments.
"""

from tolerant.polling.model.chain import Chain
from tolerant.polling.offline.choose import choose
from tolerant.polling.offline.polling_simulation import Run, Windows, simulate
from tolerant.polling.polled_answer import PolledAnswer
from tolerant.polling.poller import Poller
from tolerant.polling.polling_options import PollingOptions
from tolerant.polling.products import Products

__all__ = ["Chain", "PolledAnswer", "Poller", "PollingOptions", "Products", "Run", "Windows", "choose", "simulate"]
