"""Which views have failed: one that fails twice at the same work is given up, the others continue.

What fails once may be the machine's fault, and is done again. What fails again, before the view has got past the place
at which it failed first, is the view's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tolerant.transport import LogError

NOT_THE_VIEW = (LogError, OSError, MemoryError)
"""What no view can be blamed for: the pipeline fails with these."""

MAKING, TIMING, PUSHING = "making", "timing", "pushing"
"""The work at which a view can fail."""


class ViewFailures:
    """The views that have failed once, by the work.

    >>> failures = ViewFailures()
    >>> failures.is_second("sold", PUSHING, {"orders": 7})
    False
    >>> failures.absorbed("sold", {"orders": 6})
    >>> failures.is_second("sold", PUSHING, {"orders": 9})
    True
    """

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str], Mapping[str, int]] = {}

    def is_second(self, view: str, work: str, versions: Mapping[str, int]) -> bool:
        """Note that a view has failed at `work`, its tables being at these versions; return whether it had before."""
        if (view, work) in self._failed:
            return True
        self._failed[view, work] = dict(versions)
        return False

    def absorbed(self, view: str, versions: Mapping[str, int]) -> None:
        """Forget a failure to push what the view has absorbed now."""
        failed = self._failed.get((view, PUSHING))
        if failed is not None and all(versions.get(table, 0) >= version for table, version in failed.items()):
            del self._failed[view, PUSHING]

    def succeeded(self, view: str, work: str) -> None:
        """Forget a failure: the work is done."""
        self._failed.pop((view, work), None)

    def forget(self, view: str) -> None:
        """Forget all failures of a view that is no more."""
        self._failed = {key: versions for key, versions in self._failed.items() if key[0] != view}
