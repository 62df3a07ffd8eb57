"""A check that nodes share a directory with this machine: files written here are read there, and the reverse."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from shutil import rmtree
from typing import Any, NamedTuple

from worldsize.common.atomic_files import read_file, storage_error
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NodeCommandStream, NodeEvent
from worldsize.errors import SubmitRejected
from worldsize.service.compute_nodes import execute_on_own_nodes
from worldsize.service.providers import provider
from worldsize.wings.hpcpack.agent import share_probe
from worldsize.wings.hpcpack.settings import Share
from worldsize.wings.hpcpack.share_features import ShareFeatures, probe_share_features

ROUNDS = 4
_PATIENCE = 90.0
_TICK = 0.02


class NodeCheck(NamedTuple):
    """The result of the check of one node of an HPC Pack cluster.

    lost        why the node did not execute the program to its end; "" if it did
    round_trip  the longest time in seconds until a new file was seen on the node and its answer here; None if the files
                were not seen
    unshared    why they were not seen
    python      the version of the node's Python; None if it reported nothing, and `error` is the reason
    gpus        the models of NVIDIA's GPUs; `instances`: the MIG instances that they are divided into; `driver`: theirs
    torch       {version, cuda, gpus}; {} without torch
    """

    node: str
    lost: str = ""
    round_trip: float | None = None
    unshared: str = ""
    python: str | None = None
    error: str = ""
    gpus: tuple[str, ...] = ()
    instances: int = 0
    driver: str = ""
    torch: Mapping[str, Any] = {}

    @property
    def gpu_count(self) -> int:
        """The number of GPUs for ranks, according to nvidia-smi, else to torch, which knows other vendors, too."""
        return max(len(self.gpus), self.instances) or int(self.torch.get("gpus", 0))


class _ProbedNode:
    """A node during its probe: its output, and the files that are exchanged between this machine and it. The first
    round only finds the node; the other rounds are timed."""

    def __init__(self, node: int, name: str, directory: str) -> None:
        self._node = node
        self._name = name
        self._directory = directory
        self._said = {"up": b"", "out": b"", "err": b"", "lost": b""}
        self._code: int | None = None
        self._answered = 0
        self._slowest = 0.0
        self._wrong = False
        self._ask()

    def take(self, said: NodeEvent) -> None:
        if said.kind == "end":
            self._code = said.code
        else:
            self._said[said.kind] += said.data

    def exchange(self, names: Collection[str]) -> None:
        """Read the node's answer on the share (`pong-NODE-R`) if its file exists, record how long it took, and write
        the file of the next round (`ping-NODE-R`). `names` are the files in the shared directory."""
        name = f"pong-{self._node}-{self._answered}"
        if self._answered == ROUNDS or name not in names:
            return
        if self._answered:
            self._slowest = max(self._slowest, time.monotonic() - self._asked_at)
        with open(os.path.join(self._directory, name)) as file:
            self._wrong = self._wrong or file.read() != self._words
        self._answered += 1
        self._ask()

    def _ask(self) -> None:
        name, self._words = f"{self._node}-{self._answered}", os.urandom(16).hex()
        part = os.path.join(self._directory, "write-" + name)
        with open(part, "w") as file:
            file.write(self._words)
        os.rename(part, os.path.join(self._directory, "ping-" + name))
        self._asked_at = time.monotonic()

    def result(self) -> NodeCheck:
        lost = self._text("lost") or ("" if self._said["up"] else "it has sent nothing")
        if lost:
            return NodeCheck(self._name, lost)
        seen = self._answered == ROUNDS and not self._wrong
        shared = NodeCheck(self._name, "", self._slowest if seen else None, "" if seen else self._unshared())
        try:
            return shared._replace(**_told(self._said["out"]))
        except (ValueError, LookupError, TypeError, AttributeError):  # the output of another program, or none
            return shared._replace(error=self._error())

    def _unshared(self) -> str:
        if self._wrong:
            return "its content differs from what was written here"
        return f"it did not see this machine's file within {_PATIENCE:g} s"

    def _error(self) -> str:
        words = self._text("err").strip().splitlines()
        return words[-1] if words else f"it ended with code {self._code} and printed nothing"

    def _text(self, kind: str) -> str:
        return self._said[kind].decode(errors="replace")


def _told(out: bytes) -> dict[str, Any]:
    """Return the fields of NodeCheck from the JSON line that the probe program on a node printed last. Start-up files
    may have printed other lines before it. Raise ValueError, LookupError, TypeError or AttributeError if the line is
    something else."""
    told = json.loads(out.splitlines()[-1])
    gpus = told["gpus"]
    return {
        "python": str(told["python"]["version"]),
        "gpus": tuple(str(each["name"]) for each in gpus),
        "instances": int(told["instances"]),
        "driver": str(gpus[0]["driver"]) if gpus else "",
        "torch": dict(told["torch"]),
    }


def check_on_share(
    compute: Compute, share: Share, python: str, names: Sequence[str], tell: Callable[[str], None]
) -> tuple[ShareFeatures, list[NodeCheck]]:
    """Check the file system of the cluster's share, and the nodes `names` by one task on each. Return the features of
    the share and a NodeCheck for each node. `tell` receives messages for people. Raise StorageError if the share cannot
    be written, or if other users could change what is written. Errors of the compute are raised as they are."""
    local = str(share.local)
    directory = provider("node_commands").new_command_path(local, "check-")
    try:
        os.mkdir(directory, 0o700)
        found = probe_share_features(directory)
    except OSError as error:
        raise storage_error(error, directory) from None
    try:
        return found, _check_nodes(compute, share, python, names, directory, tell) if names else []
    finally:
        rmtree(directory, ignore_errors=True)


def _check_nodes(
    compute: Compute,
    share: Share,
    python: str,
    names: Sequence[str],
    directory: str,
    tell: Callable[[str], None],
) -> list[NodeCheck]:
    # Not on the share: Python imports modules from its working directory, and other users may have placed some there.
    program = read_file(share_probe.__file__).decode()
    words = [python, "-c", program, share.to_node_path(directory), str(ROUNDS), f"{_PATIENCE:g}"]
    nodes = {node: _ProbedNode(node, name, directory) for node, name in enumerate(names)}
    stream = execute_on_own_nodes(compute, words, len(names), os.sep, None, names)
    try:
        _follow(stream, nodes, directory, tell)
    finally:
        stream.close()
    return [node.result() for node in nodes.values()]


def _follow(
    stream: NodeCommandStream, nodes: Mapping[int, _ProbedNode], directory: str, tell: Callable[[str], None]
) -> None:
    """Receive the events of the probe programs on all nodes, and exchange files with the nodes in `directory`, until
    all programs have ended. If the job is refused, all nodes are recorded as lost. `tell` receives messages for people.
    """
    try:
        while (said := stream.read_events(_TICK)) is not None:
            for each in said:
                if each.kind == "note":
                    tell(each.data.decode(errors="replace"))
                elif each.node in nodes:
                    nodes[each.node].take(each)
            names = set(os.listdir(directory))
            for node in nodes.values():
                node.exchange(names)
    except SubmitRejected as error:
        for number, node in nodes.items():
            node.take(NodeEvent(number, "lost", error.what.encode()))
