"""A shared directory and the nodes that share it, proved: what is written here is read there, and the other way."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.common.atomic_files import storage_error
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NodeCommandStream, NodeEvent
from worldsize.errors import ConfigError, SubmitRejected
from worldsize.service.compute_nodes import execute_on_own_nodes, left_out_notice, usable_nodes
from worldsize.service.providers import provider
from worldsize.wings.hpcpack.agent import share_probe
from worldsize.wings.hpcpack.settings import Share

ROUNDS = 4
_PATIENCE = 90.0
_TICK = 0.02
_MODE = 0o600


class ShareFeatures(NamedTuple):
    """What the share's file system can do, as this machine sees it. Run directories ask for all of it; without `modes`
    others may read them."""

    modes: bool
    links: bool
    hard_links: bool


class NodeCheck(NamedTuple):
    """One node. `round_trip`: seconds that a new file took at most to be seen there and its answer here; None: it was
    not. `driver` is NVIDIA's; `torch` {version, cuda, gpus}, {} for none; `problem` is "" for a node that trains."""

    node: str
    host: str | None
    round_trip: float | None
    python: str | None
    gpus: tuple[str, ...]
    driver: str | None
    torch: Mapping[str, Any]
    problem: str


class ShareRoundTrips:
    """Files that go back and forth between us and each node. The first finds the node; the others are timed."""

    def __init__(self, directory: str, nodes: int) -> None:
        self._directory = directory
        self._asked: dict[int, tuple[float, str]] = {}
        self.answered = dict.fromkeys(range(nodes), 0)
        self.slowest = dict.fromkeys(range(nodes), 0.0)
        self.wrong: set[int] = set()
        for node in self.answered:
            self._ask(node)

    def exchange(self) -> None:
        """Take the answers that are there, and ask again."""
        names = set(os.listdir(self._directory))
        for node, number in self.answered.items():
            name = f"pong-{node}-{number}"
            if number < ROUNDS and name in names:
                self._take(node, os.path.join(self._directory, name))

    def _take(self, node: int, path: str) -> None:
        at, words = self._asked[node]
        if self.answered[node]:
            self.slowest[node] = max(self.slowest[node], time.monotonic() - at)
        with open(path) as file:
            if file.read() != words:
                self.wrong.add(node)
        self.answered[node] += 1
        self._ask(node)

    def _ask(self, node: int) -> None:
        name, words = f"{node}-{self.answered[node]}", os.urandom(16).hex()
        part = os.path.join(self._directory, "write-" + name)
        with open(part, "w") as file:
            file.write(words)
        os.rename(part, os.path.join(self._directory, "ping-" + name))
        self._asked[node] = time.monotonic(), words


def probe_share_features(directory: str) -> ShareFeatures:
    """Raises OSError where nothing can be written at all."""
    path = os.path.join(directory, "mode")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _MODE))
    os.chmod(path, _MODE)
    modes = os.stat(path).st_mode & 0o777 == _MODE
    return ShareFeatures(modes, _can_link(os.symlink, "mode", path + "-link"), _can_link(os.link, path, path + "-hard"))


def _can_link(make: Callable[[str, str], None], source: str, target: str) -> bool:
    try:
        make(source, target)
    except OSError:
        return False
    return True


def check_share(
    compute: Compute, share: Share | None, python: str, tell: Callable[[str], None]
) -> tuple[ShareFeatures, list[NodeCheck]]:
    """Every node that the compute can use, one task on each; `tell` is given news for people. ConfigError,
    StorageError; what the compute raises."""
    if share is None or share.local is None or not os.path.isdir(share.local):
        hint = "name the directory where it is mounted here; `worldsize hpcpack share` says how to mount it"
        raise ConfigError("this machine does not see the share", f"compute.{compute.name}.share.local", hint)
    names, left_out = usable_nodes(compute)
    if left_out:
        tell(left_out_notice(left_out))
    directory = provider("node_commands").new_command_path(share.local, "check-")
    try:
        os.mkdir(directory, 0o700)
        found = probe_share_features(directory)
    except OSError as error:
        raise storage_error(error, directory) from None
    try:
        # Not on the share: Python takes modules from its working directory, and others may have put some there.
        words = [python, "-c", _program(), share.to_node_path(directory), str(ROUNDS), f"{_PATIENCE:g}"]
        stream = execute_on_own_nodes(compute, words, len(names), os.sep, None, names)
        meeting = ShareRoundTrips(directory, len(names))
        try:
            said = _collect_output(stream, meeting, len(names), tell)
        finally:
            stream.close()
    finally:
        _remove(directory)
    return found, [_make_node_check(name, said[node], meeting, node) for node, name in enumerate(names)]


class _ProbeOutput:
    """What one node has said."""

    def __init__(self) -> None:
        self.host: str | None = None
        self.out = bytearray()
        self.err = bytearray()
        self.code: int | None = None
        self.lost = ""

    def take(self, said: NodeEvent) -> None:
        if said.kind == "up":
            self.host = said.data.decode(errors="replace")
        elif said.kind == "out":
            self.out += said.data
        elif said.kind == "err":
            self.err += said.data
        elif said.kind == "end":
            self.code = said.code
        elif said.kind == "lost":
            self.lost = said.data.decode(errors="replace")


def _collect_output(
    stream: NodeCommandStream, meeting: ShareRoundTrips, count: int, tell: Callable[[str], None]
) -> dict[int, _ProbeOutput]:
    nodes = {node: _ProbeOutput() for node in range(count)}
    while True:
        try:
            said = stream.read_events(_TICK)
        except SubmitRejected as error:
            for node in nodes.values():
                node.lost = error.what
            return nodes
        if said is None:
            return nodes
        for each in said:
            if each.node in nodes:
                nodes[each.node].take(each)
            elif each.kind == "note":
                tell(each.data.decode(errors="replace"))
        meeting.exchange()


def _make_node_check(name: str, said: _ProbeOutput, meeting: ShareRoundTrips, node: int) -> NodeCheck:
    try:
        told = json.loads(said.out)
    except ValueError:
        told = {}
    answered, wrong = meeting.answered[node], node in meeting.wrong
    version = told.get("python", {}).get("version")
    gpus = told.get("gpus", [])
    return NodeCheck(
        node=name,
        host=said.host,
        round_trip=meeting.slowest[node] if answered == ROUNDS and not wrong else None,
        python=version,
        gpus=tuple(each["name"] for each in gpus),
        driver=gpus[0]["driver"] if gpus else None,
        torch=told.get("torch", {}),
        problem=_problem(said, bool(told), wrong, answered),
    )


def _problem(said: _ProbeOutput, told: bool, wrong: bool, answered: int) -> str:
    if said.lost or said.host is None:
        return said.lost or "nothing was heard of it"
    if not told:
        words = said.err.decode(errors="replace").strip().splitlines()
        return words[-1] if words else f"its Python ended with code {said.code} and said nothing"
    if wrong:
        return "what it read was not what was written here"
    if answered < ROUNDS:
        return f"it did not see what was written here within {_PATIENCE:g} s"
    return ""


def _program() -> str:
    with open(share_probe.__file__, encoding="utf-8") as file:
        return file.read()


def _remove(directory: str) -> None:
    from shutil import rmtree

    rmtree(directory, ignore_errors=True)


def common_gpu_count(rows: Sequence[NodeCheck]) -> int | None:
    """The GPUs that every node has, where all have as many; None where they differ."""
    counts = {len(row.gpus) for row in rows if not row.problem}
    return counts.pop() if len(counts) == 1 else None
