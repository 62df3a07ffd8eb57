"""Check that each node's ports can be reached from others, and which node is the cause if they cannot.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.reach_answers import LinkResult, ReachAnswer
from worldsize.wings.checks.agent.readers.row_texts import join_texts

ID = "network.port"

_WHAT = "TCP ports between the nodes"
_WHAT_OF_HEAD = "the head's port"

_HINT = (
    "the agents' own connection works, so some ports are open: let the firewalls pass TCP between the nodes on all "
    "ports from 1024 on, since ranks, NCCL and gloo take any of them"
)


class _Tests(NamedTuple):
    """The results of the connections, by tester and by target: whether the target was certainly not reached. `failed`
    contains the failed connections of each pair."""

    by_target: Mapping[int, Mapping[int, bool]]
    by_tester: Mapping[int, Mapping[int, bool]]
    failed: Mapping[tuple[int, int], Sequence[LinkResult]]


def port_rows(nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None]) -> list[CheckRow]:
    """Return the rows network.port of the node check: one for each node that no node reaches, or that reaches no other,
    or that has a failed connection; an unknown row for each node that did not answer, or was too busy; otherwise one
    row for all."""
    by_rank = {node.node_rank: node for node in nodes}
    tests = _tests(by_rank, answers)
    found: dict[int, CheckRow] = {}
    for row_rank, row in [*_bad(nodes, by_rank, tests), *_unknown(nodes, answers)]:
        found.setdefault(row_rank, row)
    if found:
        return [found[node.node_rank] for node in nodes if node.node_rank in found]
    count = sum(len(answer.links) for answer in answers.values() if answer)
    return [CheckRow("", ID, _WHAT, f"{len(nodes)} nodes, {count} connections", OK)] if count else []


def _tests(by_rank: Mapping[int, CheckedNode], answers: Mapping[int, ReachAnswer | None]) -> _Tests:
    by_target: dict[int, dict[int, bool]] = {}
    by_tester: dict[int, dict[int, bool]] = {}
    failed: dict[tuple[int, int], list[LinkResult]] = {}
    for tester, answer in answers.items():
        for link in answer.links if answer else ():
            if link.rank not in by_rank or (link.error and not link.certain):
                continue
            bad = bool(link.error) or by_tester.get(tester, {}).get(link.rank, False)
            by_target.setdefault(link.rank, {})[tester] = bad
            by_tester.setdefault(tester, {})[link.rank] = bad
            if link.error:
                failed.setdefault((tester, link.rank), []).append(link)
    return _Tests(by_target, by_tester, failed)


def _bad(
    nodes: Sequence[CheckedNode], by_rank: Mapping[int, CheckedNode], tests: _Tests
) -> Iterable[tuple[int, CheckRow]]:
    """Yield the rank and the row of each node that all testers failed to reach, unless its only tester reached none of
    several nodes; then of each tester that failed to reach a node that is not one of these."""
    mute = {rank for rank, targets in tests.by_tester.items() if len(targets) > 1 and all(targets.values())}
    deaf = {rank for rank, testers in tests.by_target.items() if _is_deaf(testers, mute)}
    for rank in sorted(deaf):
        yield rank, _deaf_row(by_rank, rank, tests, rank == nodes[0].node_rank)
    for tester, target in sorted(tests.failed):
        if target not in deaf:
            targets = [other for who, other in sorted(tests.failed) if who == tester]
            yield tester, _mute_row(by_rank, tester, targets, tests)


def _is_deaf(testers: Mapping[int, bool], mute: set[int]) -> bool:
    """Return whether all nodes that tested the connection to a node failed (`testers`: True), and at least one of them
    is not in `mute` or there are several of them. `mute` contains the testers that reached none of several targets."""
    return all(testers.values()) and (not mute.issuperset(testers) or len(testers) > 1)


def _deaf_row(by_rank: Mapping[int, CheckedNode], rank: int, tests: _Tests, is_head: bool) -> CheckRow:
    testers = sorted(tests.by_target[rank])
    names = join_texts([by_rank[tester].label for tester in testers], 4, ", ")
    words = _words(by_rank[rank], tests.failed[testers[0], rank])
    return CheckRow(
        by_rank[rank].label, ID, _WHAT_OF_HEAD if is_head else _WHAT, f"not reached from {names}: {words}", BAD, _HINT
    )


def _mute_row(by_rank: Mapping[int, CheckedNode], tester: int, targets: Sequence[int], tests: _Tests) -> CheckRow:
    texts = [
        f"cannot connect to {by_rank[target].label}: {_words(by_rank[target], tests.failed[tester, target])}"
        for target in targets
    ]
    return CheckRow(by_rank[tester].label, ID, _WHAT, join_texts(texts, 4), BAD, _HINT)


def _words(target: CheckedNode, failed: Sequence[LinkResult]) -> str:
    """Return the error of the failed connections to the node `target`, with their places: `refused
    (10.0.0.3:24011)`."""
    places = " and ".join(f"{target.address}:{link.port}" for link in failed[:2])
    return f"{failed[0].error} ({places})"


def _unknown(nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None]) -> Iterable[tuple[int, CheckRow]]:
    for node in nodes:
        answer = answers.get(node.node_rank)
        late = "did not answer in time" if answer is None else _uncertain_words(answer)
        if late:
            yield node.node_rank, CheckRow(node.label, ID, _WHAT, late, UNKNOWN, "the node, or another, is very busy")


def _uncertain_words(answer: ReachAnswer) -> str:
    return next((link.error for link in answer.links if link.error and not link.certain), "")
