"""How large a statement may be, and how many there may be: constants, since everyone who reads a log must agree on what
it holds. `docs/statements.md` lists them.
"""

from __future__ import annotations

from tolerant.streams import Limits

LONGEST_TEXT = 4 << 20
"""Characters of one statement as SQL."""

LONGEST_BODY = 64 << 20
"""Characters of one encoded statement, with the weights or the network that it brings along."""

DEEPEST_BODY = 128
"""How deep the JSON of an encoded statement may be nested."""

DEEPEST_CONDITION = 32
"""How deep AND, OR and NOT may be nested: predicates are evaluated by recursion."""

LONGEST_VIEW = 100_000
"""Characters of a view's select."""

MOST_VIEW_PARTS = 10_000
"""Columns, constants, operators and functions of a view's select, all of them counted."""

DEEPEST_VIEW = 100
"""How deep the expressions of a view may be nested; a chain of ANDs or ORs counts once."""

MOST_QUERIES = Limits.queries
"""Queries in one log."""

MOST_RELATIONS = 1_000
"""Streams and tables in one log."""

MOST_COLUMNS = 1_000
"""Columns of a stream or table."""

MOST_STREAM_SHARDS = 1_024
"""Shards of a stream."""

LONGEST_MESSAGE = 4_000
"""Characters of what a statement's sender is told."""
