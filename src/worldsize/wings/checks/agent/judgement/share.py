"""Check that all nodes share the run's directory, and that it is fast enough.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.common.numbers import bytes_text
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.pairs import against_others

ID = "files.share"
WHAT = "the run's directory"
STALE = 1.0
"""Seconds after which a new file should be visible. NFS shows it at once to a node that has not looked for it
before."""

AT_ONCE = 0.05

WITHIN = 3.0
"""The time limit in seconds for a file to become visible, equal to that in `measure/share.py`."""

SLOW = 10e6
"""Bytes per second that all writers together should reach. With less, a checkpoint of 600 MB takes a minute."""

SLOWER_THAN_OTHERS = 0.25

_NOT_SHARED = "it is not the same file system there: mount it, or choose a directory that all nodes share (runs_dir)"
_UNTOLD = "the two nodes could not reach each other to agree on a moment"
_DIFFERENT = "it shows different content: another file system is mounted there, or it does not keep up with changes"
_STALE_HINT = "file attributes are cached for long (NFS: actimeo, acdirmax): ranks may miss each other's new files"
_SLOW_HINT = "checkpoints and logs will take long: ask for a faster file system, or write to the node's own disk"


def share_rows(cluster: Cluster, read: Mapping[int, Sequence[int]]) -> list[CheckRow]:
    """Return the rows files.share of the node check, on the run's directory: one for each node on which something is
    wrong or unknown; one for all if there is none. `read` contains, for each node that had an order, the ranks whose
    files it was ordered to read."""
    nodes = [node for node in cluster.nodes if node.node_rank in read]
    if not nodes:
        return []
    rows = [*_silent_rows(nodes), *_seen_rows(nodes, read), *_slow_rows(nodes)]
    return rows or [CheckRow("", ID, WHAT, _fine(nodes), OK)]


def _answer(node: CheckedNode) -> Mapping[str, Any]:
    answer = node.answers.get("share")
    return answer if isinstance(answer, Mapping) else {}


def _seen_by(node: CheckedNode) -> Mapping[str, Any] | None:
    """Return what the node saw of the other nodes' files in the run's directory, by their ranks; None if it could not
    write there itself, or did not answer."""
    answer = _answer(node)
    seen = answer.get("seen")
    return seen if isinstance(seen, Mapping) and "write_error" not in answer else None


def _silent_rows(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    return [_silent_row(node, _answer(node)) for node in nodes if _seen_by(node) is None]


def _silent_row(node: CheckedNode, answer: Mapping[str, Any]) -> CheckRow:
    if "write_error" in answer:
        value = f"cannot be written: {str(answer['write_error'])[:120]}"
        return CheckRow(node.label, ID, WHAT, value, BAD, "free space there, or let this user write there")
    value = " ".join(str(answer.get("error", "no answer in time")).split())[:200]
    return CheckRow(node.label, ID, WHAT, value, UNKNOWN, "the file system did not answer in time, perhaps")


def _seen_rows(nodes: Sequence[CheckedNode], read: Mapping[int, Sequence[int]]) -> list[CheckRow]:
    """Return at most one row of the node check for each node: that it does not share the run's directory with most
    others, or else that another node's file is late or its state is not known."""
    speaking = {node.node_rank: node for node in nodes if _seen_by(node) is not None}
    labels = {node.node_rank: node.label for node in nodes}
    looks = [
        (rank, other, (_seen_by(node) or {}).get(str(other))) for rank, node in speaking.items() for other in read[rank]
    ]
    apart = _apart(looks, min(labels))
    rows = [_apart_row(labels[rank], labels[other], problem) for rank, (other, problem) in sorted(apart.items())]
    told = [look for look in looks if look[0] not in apart and look[1] not in apart and look[1] in speaking]
    return rows + _late_rows(told, labels)


def _apart(looks: Sequence[tuple[int, int, Any]], head: int) -> dict[int, tuple[int, str]]:
    """Return the nodes that do not see what most others see in the run's directory, each with another node and the
    problem between them ("missing" or "different"). `looks` are triples of reader, writer and the result."""
    islands = _islands(looks)
    largest = max(islands.values(), key=lambda island: (len(island), head in island), default=frozenset())
    found: dict[int, tuple[int, str]] = {}
    for reader, writer, seen in looks:
        problem = seen.get("problem") if isinstance(seen, Mapping) else None
        if problem in ("missing", "different"):
            one, other = (writer, reader) if reader in largest and writer not in largest else (reader, writer)
            found.setdefault(one, (other, problem))
    return found


def _islands(looks: Sequence[tuple[int, int, Any]]) -> dict[int, frozenset[int]]:
    """Return, for each node, the set of nodes that see each other's files in the run's directory, directly or through
    others. `looks` are triples of reader, writer and the result."""
    islands = {rank: frozenset((rank,)) for look in looks for rank in look[:2]}
    for reader, writer, seen in looks:
        if number_in(seen, "delay") is not None and islands[reader] is not islands[writer]:
            joined = islands[reader] | islands[writer]
            islands.update(dict.fromkeys(joined, joined))
    return islands


def _apart_row(label: str, other: str, problem: str) -> CheckRow:
    if problem == "missing":
        value = f"{label} and {other} do not see each other's new files within {WITHIN:g} s"
        return CheckRow(label, ID, WHAT, value, BAD, _NOT_SHARED)
    return CheckRow(label, ID, WHAT, f"{label} and {other} see different contents of one file", BAD, _DIFFERENT)


def _late_rows(looks: Sequence[tuple[int, int, Any]], labels: Mapping[int, str]) -> list[CheckRow]:
    rows: dict[int, CheckRow] = {}
    for reader, writer, seen in looks:
        delay = number_in(seen, "delay")
        if delay is None:
            value = f"unknown whether it shows the files of {labels[writer]}"
            rows.setdefault(reader, CheckRow(labels[reader], ID, WHAT, value, UNKNOWN, _UNTOLD))
        elif delay > STALE:
            value = f"shows a new file of {labels[writer]} after {delay:.1f} s"
            rows[reader] = CheckRow(labels[reader], ID, WHAT, value, WARNING, _STALE_HINT)
    return list(rows.values())


def _rates(nodes: Sequence[CheckedNode]) -> dict[int, float]:
    found = {node.node_rank: number_in(_answer(node), "rate") for node in nodes}
    return {rank: rate for rank, rate in found.items() if rate}


def _slow_rows(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    """Return one row of the node check if all nodes together write slowly to the run's directory; otherwise one for
    each node that is slow compared with the others."""
    rates = _rates(nodes)
    ratios = against_others(rates)
    if rates and sum(rates.values()) < SLOW:
        value = f"{_count(len(rates))} wrote {bytes_text(sum(rates.values()))}/s (files of 8 MiB, with fsync)"
        return [CheckRow("" if len(nodes) > 1 else nodes[0].label, ID, WHAT, value, WARNING, _SLOW_HINT)]
    return [
        CheckRow(node.label, ID, WHAT, f"wrote {bytes_text(rates[node.node_rank])}/s, {ratio:.0%} of the others' rate",
                 WARNING, "its way to the file server is slow: look at its network, or leave it out (--exclude-bad)")
        for node in nodes
        for ratio in [ratios.get(node.node_rank, 1.0)]
        if ratio < SLOWER_THAN_OTHERS and rates[node.node_rank] < SLOW and len(rates) > 2
    ]  # fmt: skip


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _fine(nodes: Sequence[CheckedNode]) -> str:
    rates = _rates(nodes)
    speed = f"wrote {bytes_text(sum(rates.values()))}/s" if rates else "writing was not measured"
    delays = [number_in(each, "delay") or 0.0 for node in nodes for each in _answer(node).get("seen", {}).values()]
    if not delays:
        return speed
    delay = f"within {max(delays):.2f} s" if max(delays) > AT_ONCE else "at once"
    return f"{_count(len(nodes))} see each other's new files {delay}; {speed}"
