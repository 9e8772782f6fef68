"""Queries with all the arrays that polling keeps for them: what `simulate` and `Poller` both start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tolerant.polling.choice.lanes import Lanes, build_lanes
from tolerant.polling.choice.risk import LEARNED, RiskRows, build_risk_rows
from tolerant.polling.model.correlations import Correlations, new_correlations
from tolerant.polling.model.rescale import rescale
from tolerant.polling.poller_arrays import (
    HONEST,
    OFF,
    Chains,
    Links,
    Records,
    Servers,
    Settings,
    States,
    Window,
    Workspace,
)
from tolerant.polling.polling_options import PollingOptions
from tolerant.polling.query_arrays import (
    build_query_arrays,
    coefficients,
    index_items,
    new_items,
    new_window,
    reset_feedback,
    set_item_bounds,
    workspace_for,
)
from tolerant.polling.tick import ANY_OVER, RISK
from tolerant.polling.tolerance_shares import tolerance_shares
from tolerant.queries import Aggregate


@dataclass(eq=False)
class Arrangement:
    """A set of queries, the items that they refer to, and the arrays of both (`poller_arrays` says what is in them)."""

    options: PollingOptions
    settings: Settings
    queries: dict[str, Aggregate]
    places: dict[str, int]  # of the queries, by name: their index in `table`
    index: dict[str, int]  # of the items, by name: their index in `items`
    table: Records
    links: Links
    lanes: Lanes
    rows: RiskRows
    items: Records
    chains: Chains
    window: Window
    correlations: Correlations
    servers: Servers
    workspace: Workspace
    states: States = field(init=False)  # how far each query can be kept at this tick (`trust`)

    def __post_init__(self) -> None:
        self.states = np.zeros(len(self.table), np.int8)

    @classmethod
    def of(
        cls,
        queries: Iterable[Aggregate],
        options: PollingOptions,
        settings: Settings,
        *,
        live: bool = False,
        scale: float = 1.0,
    ) -> Arrangement:
        """Arrange these queries, with nothing known of their items yet.

        live: pulls may fail, so that what a query could not keep is recorded. scale: factor on each `within`.
        """
        listed = list(queries)
        index = index_items(listed)
        names = tuple(index)
        table, links = build_query_arrays(listed, index, scale)
        reset_feedback(table, options.first_safety, options.gamma)
        items, chains = new_items(
            names, options.states, options.seed, propagate=options.execution == "expected", past=options.past
        )
        set_item_bounds(items, table, links, options.states)
        items["cost"] = options.pull_costs(names)
        items["server"], servers = options.servers_of(names)
        items["missing"] = -options.patience
        window = new_window(
            links,
            len(names),
            settings.window,
            used=settings.feedback != OFF or settings.report,
            doubted=settings.feedback == HONEST or settings.report,
            calibrated=settings.calibrated,
            excused=len(listed) if live else 0,
        )
        return cls(
            options=options,
            settings=settings,
            queries={query.name: query for query in listed},
            places={query.name: place for place, query in enumerate(listed)},
            index=index,
            table=table,
            links=links,
            lanes=_lanes(settings, table, links, len(names)),
            rows=_risk_rows(options, settings, table, links, len(names)),
            items=items,
            chains=chains,
            window=window,
            correlations=new_correlations(len(names), settings.max_interval, options.correlated),
            servers=servers,
            workspace=workspace_for(len(names)),
        )

    def reweigh(self, query: Aggregate) -> None:
        """Put a query in the place of one that differs only in the size of its weights; what was learned is kept."""
        record: Any = self.table[self.places[query.name]]
        span = slice(int(record["start"]), int(record["stop"]))
        self.queries[query.name] = query
        self.links.weights[span] = list(coefficients(query).values())
        within, owner = np.array([record["within"]]), np.zeros(span.stop - span.start, np.int64)
        self.links.shares[span] = tolerance_shares(self.links.weights[span], within, owner)
        self.lanes = _lanes(self.settings, self.table, self.links, len(self.items))
        before = self.items["spacing"].copy()
        set_item_bounds(self.items, self.table, self.links, self.options.states)
        rescale(self.items, self.chains, before, np.arange(len(self.items)))
        # Rows keep a copy of the weights by item; finding one query's part of it is not worth the code.
        learned = self.rows.table
        self.rows = _risk_rows(self.options, self.settings, self.table, self.links, len(self.items))
        for name in LEARNED:
            self.rows.table[name] = learned[name]


def _lanes(settings: Settings, table: Records, links: Links, items: int) -> Lanes:
    """Build the lanes in which a chooser looks for a query that exceeds its bound; empty where it does not look."""
    return build_lanes(table if settings.chooser in ANY_OVER else table[:0], links, items)


def _risk_rows(options: PollingOptions, settings: Settings, table: Records, links: Links, items: int) -> RiskRows:
    """Build the rows that "risk" keeps within their risk; none for other choosers."""
    return build_risk_rows(table if settings.chooser == RISK else table[:0], links, items, options.first_doubt)
