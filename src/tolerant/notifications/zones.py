"""Divides the plane of subscriptions into zones by alternating medians, one per gateway or partition (§6).

A subscription is a point and lies in exactly one zone: a message that is copied to every zone that it
intersects still reaches each subscriber once.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.kernels.snapshots import State
from tolerant.notifications.message import Message, Messages, finite_ends
from tolerant.notifications.notice import Notice
from tolerant.notifications.range_arguments import Floats, Integers, intervals


class _Tree(NamedTuple):
    """Cuts: points with a coordinate below `cut` are on the left. A child < 0 is the zone −1 − child."""

    axis: Integers
    cut: Floats
    left: Integers
    right: Integers


class Zones:
    """`count` zones with about as many of the given ranges in each; every possible range is in one of them.

    Neighbouring zones have close numbers.

    >>> zones = Zones([0, 1, 5, 6], [9, 2, 6, 7], count=2)
    >>> zones.of(0, 9), zones.of(1, 2), zones.of(5, 6)
    (0, 0, 1)
    >>> zones.reached(Message(3.0, 5.5, 5.5, 5.0, 8.0)).tolist()
    [1]
    """

    def __init__(self, x1s: Any, x2s: Any, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        low, high = intervals(x1s, x2s)
        self.count = int(count)
        self._tree = _grown(_finite(low, high), self.count)

    def of(self, x1: float, x2: float) -> int:
        """Return the zone of a subscription."""
        return int(self.of_many([x1], [x2])[0])

    def of_many(self, x1s: Any, x2s: Any) -> Integers:
        """Return the zones of many subscriptions, int64[n]."""
        points = _finite(*intervals(x1s, x2s))
        at = np.zeros(points.shape[1], np.int64)
        if self.count == 1:
            return at
        tree, inside = self._tree, np.arange(len(at))
        while len(inside):
            node = at[inside]
            below = points[tree.axis[node], inside] < tree.cut[node]
            at[inside] = np.where(below, tree.left[node], tree.right[node])
            inside = inside[at[inside] >= 0]
        return -1 - at

    def reached(self, message: Message | Notice) -> Integers:
        """Return the zones that a message must be sent to: all that may contain an affected subscription."""
        if isinstance(message, Notice):
            message = Message(message.value, message.x, message.x, message.outer_low, message.outer_high)
        return _reached(self._tree, np.array([[0.0, *message[1:5]]]))[1]

    def reached_many(self, messages: Messages) -> tuple[Integers, Integers]:
        """Return the zones of many messages: the index of the message and the zone, one entry per pair."""
        return _reached(self._tree, messages.lines)

    def state(self) -> State:
        """Return the tree, for a snapshot."""
        return State(tree=State(self._tree._asdict()), count=self.count)

    @classmethod
    def load(cls, state: State) -> Self:
        """Return the zones whose `state` was taken."""
        zones = cls([], [], 1)
        tree, zones.count = state.exactly("tree", "count")
        zones._tree = _Tree(*(array.copy() for array in tree.exactly(*_Tree._fields)))
        return zones


def _finite(x1s: Floats, x2s: Floats) -> Floats:
    return np.stack(finite_ends(x1s, x2s))


def _grown(points: Floats, count: int) -> _Tree:
    """Cut [2, n] points into `count` zones, numbered from left to right."""
    cuts = max(count - 1, 1)
    tree = _Tree(np.zeros(cuts, np.int64), np.zeros(cuts), np.full(cuts, -1), np.full(cuts, -1))
    made, first = 0, 0  # cuts and zones so far
    waiting = [(np.arange(points.shape[1]), count, 0, -1, False)]
    while waiting:
        inside, zones, axis, above, on_right = waiting.pop()
        if zones == 1:
            number, first = -1 - first, first + 1
        else:
            number, made = made, made + 1
            axis, cut = _cut(points, inside, axis, zones)
            tree.axis[number], tree.cut[number] = axis, cut
            below = points[axis, inside] < cut
            waiting.append((inside[~below], zones - zones // 2, 1 - axis, number, True))
            waiting.append((inside[below], zones // 2, 1 - axis, number, False))
        if above >= 0:
            (tree.right if on_right else tree.left)[above] = number
    return tree


def _cut(points: Floats, inside: Integers, axis: int, zones: int) -> tuple[int, float]:
    """Return the axis and value of a cut: the median, or the quantile that shares out an odd number of zones; across
    the other axis if all points are the same along this one.
    """
    if not len(inside):
        return axis, 0.0
    if len(inside) > 1 and points[axis, inside].min() == points[axis, inside].max():
        axis = 1 - axis
    along = points[axis, inside]
    middle = len(along) * (zones // 2) // zones
    cut = float(np.partition(along, middle)[middle])
    if cut == along.min() and (above := along[along > cut]).size:
        cut = float(above.min())  # no point would be below
    return axis, cut


@compiled
def _reached(tree: _Tree, lines: Floats) -> tuple[Integers, Integers]:
    message, zone, n = np.empty(len(lines) + 64, np.int64), np.empty(len(lines) + 64, np.int64), 0
    stack = np.empty(len(tree.cut) + 2, np.int64)
    single = tree.left[0] == -1 and tree.right[0] == -1
    for m in range(len(lines)):
        inner_low, inner_high, outer_low, outer_high = lines[m, 1], lines[m, 2], lines[m, 3], lines[m, 4]
        top, stack[0] = 1, -1 if single else 0
        while top:
            top -= 1
            at = stack[top]
            if at < 0:
                if n == len(zone):
                    message, zone = _longer(message), _longer(zone)
                message[n], zone[n] = m, -1 - at
                n += 1
                continue
            cut = tree.cut[at]
            if (inner_low if tree.axis[at] == 0 else outer_high) >= cut:
                stack[top] = tree.right[at]
                top += 1
            if (outer_low if tree.axis[at] == 0 else inner_high) < cut:
                stack[top] = tree.left[at]
                top += 1
    return message[:n], zone[:n]


@compiled
def _longer(array: Integers) -> Integers:
    longer = np.empty(2 * len(array), np.int64)
    for i in range(len(array)):
        longer[i] = array[i]
    return longer
