"""Check for a file system that is not mounted on some nodes, from what `probes/inputs.py` found of the job's paths on
all nodes. Pure.

The mount point exists without the file system, and is empty, so a single node cannot detect the problem. Standard
library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import Finding, finding_rows, mapping_of
from worldsize.wings.checks.agent.probes.inputs import OUTPUT

_ID, _WHAT = "files.inputs", "the same files on all nodes"
_LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "ramfs", "overlay", "rootfs", "squashfs"))
_HINT = "mount there what the other nodes have mounted, or leave the node out"


class PathSeen(NamedTuple):
    """A node's report on one path: see the fact `paths` of `probes/inputs.py`."""

    rank: int
    label: str
    kind: str
    entries: int
    family: str


def path_rows(nodes: Sequence[CheckedNode]) -> Sequence[CheckRow]:
    """Return the rows files.inputs of the node check: one for each node whose directories of the job differ from the
    others', bad if an input is empty on this node only, a warning if its file system is of another kind. There is no
    row for missing paths, which the node itself reports, and none if all nodes are alike."""
    keys = dict.fromkeys(key for node in nodes for key in _paths(node))
    return finding_rows(nodes, _ID, _WHAT, (each for key in keys for each in _findings(key, _seen(nodes, key))))


def _findings(key: str, seen: Sequence[PathSeen]) -> Iterator[tuple[int, Finding]]:
    """Yield the rank and a finding of each node on which the job's path `key` differs from the other nodes'. Outputs
    give none: they may be empty on some nodes, and on separate disks."""
    if key.startswith(OUTPUT):
        return
    full = [each for each in seen if each.entries]
    for each in seen:
        if full and not each.entries:
            whole = "has files" if each.kind == "directory" else "is not empty"
            value = f"{key} is empty here, and {whole} on {_others(full)}"
            yield each.rank, Finding(BAD, value, _HINT)
    yield from _kind_findings(key, full or seen)


def _kind_findings(key: str, seen: Sequence[PathSeen]) -> Iterator[tuple[int, Finding]]:
    known = [each for each in seen if each.family]
    usual = _usual_family([each.family for each in known])
    counts = {each.entries for each in known if each.family == usual}
    for each in known:
        # the server whose disk the others mount
        is_server = each.family in _LOCAL and usual not in _LOCAL and counts == {each.entries}
        if usual and each.family != usual and not is_server:
            yield each.rank, Finding(WARNING, f"{key} is on {each.family} here, and on {usual} elsewhere", _HINT)


def _usual_family(families: Sequence[str]) -> str:
    """Return the kind of file system that most nodes have, from the kind on each node. Among equally frequent ones,
    return the only one that is not a local disk; "" if it is not clear which one is right."""
    counts = Counter(families).most_common()
    if len(counts) < 2 or counts[0][1] > counts[1][1]:
        return counts[0][0] if counts else ""
    first = [family for family, count in counts if count == counts[0][1]]
    remote = [family for family in first if family not in _LOCAL]
    return remote[0] if len(remote) == 1 else ""


def _others(full: Sequence[PathSeen]) -> str:
    return full[0].label if len(full) == 1 else f"{len(full)} other nodes"


def _seen(nodes: Sequence[CheckedNode], key: str) -> Sequence[PathSeen]:
    """Return what each node has found at the job's path `key`, for the nodes that have a directory or file there."""
    return [each for each in (_path_seen(node, key) for node in nodes) if each is not None]


def _path_seen(node: CheckedNode, key: str) -> PathSeen | None:
    fact = _paths(node).get(key)
    if not isinstance(fact, (list, tuple)) or len(fact) < 4:
        return None
    kind, entries, _, system = fact[:4]
    if kind not in ("directory", "file") or type(entries) is not int or not isinstance(system, str):
        return None
    return PathSeen(node.node_rank, node.label, str(kind), entries, _family(system))


def _family(system: str) -> str:
    """Return the kind of a file system from the kernel's name `system` for its type. The two drivers of NFS show the
    same files and are one kind. That of automounts is "", because it exists before anything is mounted."""
    return {"nfs4": "nfs", "autofs": ""}.get(system, system)


def _paths(node: CheckedNode) -> Mapping[str, object]:
    return mapping_of(node.facts.get("paths"))
