"""Names: what a stream, table, query or column may be called, and how a name is written in SQL."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RELATION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,199}", re.ASCII)

_WORDS = """
ALL ALTER ANALYZE AND ANTI ANY ARRAY AS ASC BETWEEN BOTH BY CALL CASE CAST CHECK CLUSTER COLLATE COMMENT CONSTRAINT
COPY CREATE CROSS CUBE CURRENT CURRENT_CATALOG CURRENT_DATE CURRENT_DATETIME CURRENT_ROLE CURRENT_SCHEMA
CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATE DEFAULT DELETE DESC DESCRIBE DISTINCT DISTRIBUTE DIV DROP ELSE END
ESCAPE EXCEPT EXECUTE EXISTS EXPLAIN FALSE FETCH FIDELITY FILTER FINAL FOR FOREIGN FORMAT FROM FULL FUNCTION GLOB
GRANT GROUP GROUPING HAVING ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN KEEP KILL LATERAL LEADING LEFT
LIKE LIMIT LOCALTIME LOCALTIMESTAMP LOCK MAP MERGE MINUS NATURAL NOT NULL OFFSET ON ONLY OPTIMIZE OR ORDER OTHERWISE
OUTER OVER OVERLAPS PARTITION PERCENT PIVOT PREWHERE PRIMARY QUALIFY RANGE RECURSIVE REFERENCES REFRESH REGEXP
RENAME REVOKE RIGHT RLIKE ROLLUP ROW ROWS SAMPLE SELECT SEMI SESSION SESSION_USER SET SHOW SIMILAR SOME SORT STRUCT
SYSTEM_USER TABLE TABLESAMPLE THEN TIME TIMESTAMP TO TRAILING TRUE TRUNCATE UNION UNIQUE UNKNOWN UNNEST UNPIVOT
UPDATE USER USING VACUUM VALUES VIEW WHEN WHERE WINDOW WITH WITHHOLD WITHIN
"""

RESERVED = frozenset(_WORDS.split())
"""Words that mean something to SQL or to us: in backticks where they are names."""


def quoted(name: str) -> str:
    """A name as SQL: in backticks where it has to be.

    >>> quoted("rate"), quoted("select"), quoted("two words")
    ('rate', '`select`', '`two words`')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return backticked(name)


def backticked(name: str) -> str:
    """A name as SQL, in backticks whatever it is.

    >>> print(backticked("a`b"))
    `a``b`
    """
    return "`" + name.replace("`", "``") + "`"


def is_topic_name(name: str) -> bool:
    """Whether a stream, table or query may have this name: it becomes part of topics' names, in logs of every make.

    >>> is_topic_name("web-traffic"), is_topic_name("a.b"), is_topic_name("")
    (True, False, False)
    """
    return _RELATION.fullmatch(name) is not None
