"""A node whose files go through its log to a client's directory, for the tests of both ends."""

from __future__ import annotations

import os
from pathlib import Path

from worldsize.plan.plan import NodePlan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.relay import Relay
from worldsize.wings.azure.workspace.mirror import Mirror

KEY = b"the key of one run"
LOG = "user_logs/std_log_process_1.txt"
LAYOUT: tuple[NodePlan, ...] = node_major_layout(2, 2)
"""Node 1 has ranks 2 and 3."""


class RelayedNode:
    """Node 1 of two. `log`: what its process prints, in a file that others may append to, too; `now`: its clock."""

    def __init__(self, place: Path, node_rank: int = 1) -> None:
        self.node, self.client = RunPaths(str(place / "node")), RunPaths(str(place / "client"))
        for path in self.node.directories():
            os.makedirs(path)
        os.mkdir(self.client.root)
        self.log = place / "std_log.txt"
        self.name = LOG.replace("1", str(node_rank))
        self.now, self._begun = 100.0, 0
        self.node_rank = node_rank
        self.start_relay()

    def start_relay(self) -> None:
        self._begun += 1000
        out = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ranks = [rank.rank for rank in LAYOUT[self.node_rank].ranks]
        self.relay = Relay(self.node, self.node_rank, ranks, out, KEY, lambda: self.now, begun=self._begun)

    def mirror(self) -> Mirror:
        return Mirror(self.client, KEY, LAYOUT)

    def write(self, name: str, data: bytes, mode: str = "ab") -> None:
        path = Path(self.node.attempt_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, mode) as file:
            file.write(data)

    def replace(self, name: str, data: bytes) -> None:
        path = Path(self.node.attempt_dir, name)
        path.with_suffix(".tmp").write_bytes(data)
        os.replace(path.with_suffix(".tmp"), path)

    def send(self) -> None:
        while self.relay.step():
            pass

    def print(self, data: bytes) -> None:
        """What another program writes into the log."""
        with open(self.log, "ab") as file:
            file.write(data)

    def read(self, size: int | None = None, mirror: Mirror | None = None) -> int:
        """A client reads the next `size` bytes of the log. Returns how many it has taken in all."""
        mirror = mirror or self.mirror()
        data = self.log.read_bytes()
        start = mirror.offset(self.name, len(data))
        return mirror.apply(self.name, start, data[start : None if size is None else start + size])

    def pass_on(self) -> None:
        self.send()
        self.read()

    def sent(self) -> dict[str, bytes]:
        return contents(self.node.attempt_dir)

    def received(self) -> dict[str, bytes]:
        return contents(self.client.attempt_dir)

    def others(self) -> bytes:
        path = Path(self.client.setup_log(self.node_rank))
        return path.read_bytes() if path.exists() else b""


def contents(directory: str) -> dict[str, bytes]:
    """All files below it, by their names relative to it."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in Path(directory).rglob("*") if path.is_file()
    }
