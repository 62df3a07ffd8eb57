"""Choice of the nodes that measure together: in pairs, twice, with different partners in the second round.

A slow node makes its partner look slow. In the second round the slow nodes are paired with the fast ones: a node that
is slow again is the cause (the two rounds of DLRover's network check,
dlrover/python/master/elastic_training/rdzv_manager.py). Pure. Standard library only: travels inside agent.pyz (Python
>= 3.8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence


def first_groups(nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the groups of nodes that measure together in the first round, as tuples of their ranks: pairs of
    neighbours. The last three of an odd number of nodes form a ring. A single node forms no group."""
    if len(nodes) < 2:
        return []
    groups = [tuple(nodes[start : start + 2]) for start in range(0, len(nodes) - 1, 2)]
    if len(nodes) % 2:
        groups[-1] += (nodes[-1],)
    return groups


def second_groups(scores: Mapping[int, float], first: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the groups of nodes that measure together in the second round: slow nodes with fast nodes, each with
    another partner than in the groups `first` if that is possible.

    scores  the speed of each node, compared with the others: less is slower
    """
    before = _partners(first)
    ordered = sorted(scores, key=lambda node: (scores[node], node))
    half = len(ordered) // 2
    slow, fast = ordered[:half], ordered[half:][::-1]
    groups = _match_groups(slow, fast, before)
    left = set(ordered).difference(*groups)
    if left and groups:
        groups[-1] += tuple(left)
    known = set(previous_of(first).items())
    return [_turn(group, known) for group in groups]


def previous_of(groups: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Return the node from which each node receives in the `groups` that measure together, by the receiver's rank. Each
    group is a ring."""
    return {group[at]: group[at - 1] for group in groups for at in range(len(group))}


def next_of(groups: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Return the node to which each node sends in the `groups` that measure together, by the sender's rank. Each group
    is a ring."""
    return {before: node for node, before in previous_of(groups).items()}


def against_others(values: Mapping[int, float]) -> dict[int, float]:
    """Return the value of each node divided by the median of the other nodes' values, by the node's rank; 1.0 if there
    are no others, or if their median is 0."""
    medians = others_medians(values)
    return {node: _ratio(value, medians.get(node, 0.0)) for node, value in values.items()}


def others_medians(values: Mapping[int, float]) -> dict[int, float]:
    """Return, for each node, the median of the other nodes' values, by the node's rank; empty if there are no
    others."""
    ordered = sorted(values.values())
    return {node: _median_without(ordered, value) for node, value in values.items() if len(ordered) > 1}


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Return the median of the sorted values `ordered` except one that equals `value`. It is found without copying the
    values, because there may be thousands."""
    low, high = (len(ordered) - 2) // 2, (len(ordered) - 1) // 2
    at = bisect_left(ordered, value)
    return (ordered[low + (low >= at)] + ordered[high + (high >= at)]) / 2


def _ratio(value: float, middle: float) -> float:
    return value / middle if middle > 0 else 1.0


def _partners(groups: Sequence[tuple[int, ...]]) -> set[frozenset[int]]:
    return {frozenset((one, other)) for group in groups for one in group for other in group if one != other}


def _match_groups(slow: Sequence[int], fast: Sequence[int], before: set[frozenset[int]]) -> list[tuple[int, ...]]:
    """Return pairs of each slow node with a fast one: the fastest that is left and was not its partner in the first
    round. A node that has only its earlier partner left exchanges it with another pair, if both pairs are new then."""
    groups: list[tuple[int, ...]] = []
    left = list(fast)
    for node in slow:
        new = next((other for other in left if frozenset((node, other)) not in before), left[0])
        left.remove(new)
        groups.append((node, new))
    for at, group in enumerate(groups):
        if frozenset(group) in before:
            _change(groups, at, before)
    return groups


def _change(groups: list[tuple[int, ...]], at: int, before: set[frozenset[int]]) -> None:
    """Exchange the partner of the pair number `at` in `groups` with that of another pair, if neither of the new pairs
    is in `before`, the pairs of the first round."""
    for other, (slow, fast) in enumerate(groups):
        changed = (groups[at][0], fast), (slow, groups[at][1])
        if other != at and not before.intersection(map(frozenset, changed)):
            groups[at], groups[other] = changed
            return


def _turn(group: tuple[int, ...], known: set[tuple[int, int]]) -> tuple[int, ...]:
    """Return the ring `group` of nodes in the direction in which fewer nodes receive from the same node as in the first
    round. `known` contains the pairs of receiver and sender of that round."""
    return min((group, group[::-1]), key=lambda way: len(known.intersection(previous_of([way]).items())))
