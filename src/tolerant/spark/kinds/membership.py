"""Which items are in which bounded query and group, with which weight: in `tolerant.sql.membership`, for all to use."""

from tolerant.sql.membership import Keys, aggregate, instance_name, members, query_and_group

__all__ = ["Keys", "aggregate", "instance_name", "members", "query_and_group"]
