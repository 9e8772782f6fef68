"""Models a network of brokers over zones of subscriptions and the cost of content-based routing in it (§4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.notifications.range_arguments import Floats, Integers


class Overlay(NamedTuple):
    """A tree: gateways are its leaves, in the order of their zones, the server is its root, which is the last node.

    Every node knows the box of the points below each child, and forwards a message where a box meets its rectangle.
    """

    box: Floats  # [nodes, 4]: smallest and largest x1, smallest and largest x2; an empty one intersects nothing
    first: Integers  # [nodes]: the first child
    children: Integers  # [nodes]: how many


def overlay(x1s: Floats, x2s: Floats, gateway: Integers, brokers: int, fan_out: int) -> Overlay:
    """Return the tree of fan-out `fan_out` over `brokers` gateways, for points whose gateway is given."""
    box = np.tile([np.inf, -np.inf, np.inf, -np.inf], (brokers, 1))
    folds = (np.minimum, np.maximum, np.minimum, np.maximum)
    for column, values in enumerate((x1s, x1s, x2s, x2s)):
        folds[column].at(box[:, column], gateway, values)
    boxes, firsts, counts = [box], [np.zeros(brokers, np.int64)], [np.zeros(brokers, np.int64)]
    below = 0
    while len(box) > 1 or len(boxes) == 1:
        starts = np.arange(0, len(box), fan_out)
        firsts.append(below + starts)
        counts.append(np.diff(np.append(starts, len(box))))
        below += len(box)
        box = np.stack([fold.reduceat(box[:, i], starts) for i, fold in enumerate(folds)], axis=1)
        boxes.append(box)
    return Overlay(np.concatenate(boxes), np.concatenate(firsts), np.concatenate(counts))


@compiled
def routed(tree: Overlay, lines: Floats, event: Integers) -> tuple[Integers, int]:
    """Return the number of links of each message, and the most links over which one node sends for one event.

    `lines`: float64[n, 5], messages; those of one event are adjacent, and share links.
    """
    nodes = len(tree.first)
    links, stress = np.zeros(len(lines), np.int64), 0
    sent, stack = np.zeros(nodes, np.int64), np.empty(nodes + 1, np.int64)
    sent_of, heard_of = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    for m in range(len(lines)):
        inner_low, inner_high, outer_low, outer_high = lines[m, 1], lines[m, 2], lines[m, 3], lines[m, 4]
        top, stack[0] = 1, nodes - 1
        while top:
            top -= 1
            node = stack[top]
            if sent_of[node] != event[m]:
                sent_of[node], sent[node] = event[m], 0
            for child in range(tree.first[node], tree.first[node] + tree.children[node]):
                if (
                    tree.box[child, 0] <= inner_low
                    and outer_low < tree.box[child, 1]
                    and tree.box[child, 2] < outer_high
                    and inner_high <= tree.box[child, 3]
                ):
                    links[m] += 1
                    if heard_of[child] != event[m]:
                        heard_of[child] = event[m]
                        sent[node] += 1
                    stack[top] = child
                    top += 1
            stress = max(stress, sent[node])
    return links, stress
