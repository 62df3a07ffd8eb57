"""The part of one node in the watch over a run that may hang: it reports its ranks' signs of life to the head, and
takes their stacks on request.

All nodes' messages go through the head's connections, since nodes may share no file system. Nothing here blocks or
raises, since the ranks matter more than the knowledge about them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

from worldsize.agent.outcome.node_record import note
from worldsize.agent.posix import processes
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.standstill import sample_node
from worldsize.common.atomic_files import Descriptor, open_unnamed_file, read_if_possible, try_unlink, write_all
from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent.node_gpus import NodeGpus
from worldsize.wings.hangs.agent.signs_of_life import SignsOfLife
from worldsize.wings.hangs.agent.stack_collector import PROGRAM, SECONDS

_MOST_SENT = 900_000
"""The maximum number of bytes of a sample in a message. A line of the control channel may have a mebibyte, and a longer
one ends the connection."""

_MOST_READ = 8 << 20

PATIENCE = 5.0
"""Seconds to wait for the program that takes stacks after its own limit has passed."""

Tell: TypeAlias = "Callable[[dict[str, Any]], None]"


class WatchedNode:
    """The node's part in the watch. `tell` sends a message to the head."""

    def __init__(self, paths: RunPaths, node: int, ranks: RankProcesses, signs: SignsOfLife, tell: Tell) -> None:
        self._paths = paths
        self._node = node
        self._ranks = ranks
        self._tell = tell
        self._signs = signs
        self._gpus = NodeGpus(ranks)
        self._collector = 0
        self._until: float | None = None
        self._number = 0
        self._has_asked = False

    @property
    def is_collecting(self) -> bool:
        return self._collector != 0

    def look(self, now: float) -> None:
        """Take a sample of the signs of life of the node's ranks, and report it to the head."""
        running = self._ranks.running()
        living = [rank for process in running.values() for rank in process.ranks]
        sample = sample_node(self._paths, running, running, now)
        signs = self._signs.add(sample, living, self._gpus.read(), self._has_asked)
        self._has_asked = self.is_collecting
        self._tell({"signs": signs._asdict()})

    def start_collecting(self, number: int, dumps: bool) -> None:
        """Start the program that takes the stacks of this node's ranks, as sample `number` of the run; with `dumps`,
        also their Flight Recorder dumps. Do nothing if the program is running already."""
        if self._collector:
            return
        self._number = number
        self._has_asked = True
        ranks = {str(rank): pid for pid, process in self._ranks.running().items() for rank in process.ranks}
        try_unlink(self._output)
        order = {"ranks": ranks, "directory": self._paths.stacks_dir, "seconds": SECONDS, "dumps": dumps}
        try:
            os.makedirs(self._paths.stacks_dir, exist_ok=True)
            self._collector = start_program(PROGRAM, json.dumps(order), self._output)
            self._ranks.spared.add(self._collector)
        except OSError as error:
            note(f"the stacks of a silent run are not taken: {error}")
            self._tell({"sampled": number, "text": ""})

    def finish_collecting(self, now: float) -> None:
        """Send the stacks that the collecting program has found to the head, once the program has ended. Kill the
        program if it is late, since it may wait for a file server forever."""
        if not self._collector:
            return
        if self._collector in self._ranks.spared:
            self._until = self._until if self._until is not None else now + SECONDS + PATIENCE
            if now < self._until:
                return
            processes.signal_process(self._collector, signal.SIGKILL)
        self._collector, self._until = 0, None
        text = read_if_possible(self._output, _MOST_READ).decode("utf-8", "replace")
        try_unlink(self._output)
        self._tell({"sampled": self._number, "text": _sendable(text)})

    def close(self) -> None:
        """Kill the programs that read the node's GPUs and stacks, if they still run, without waiting for them."""
        self._gpus.close()
        if self._collector in self._ranks.spared:
            processes.signal_process(self._collector, signal.SIGKILL)

    @property
    def _output(self) -> str:
        return os.path.join(self._paths.stacks_dir, f"node-{self._node:04d}.found")


def _sendable(text: str) -> str:
    """Return the complete lines of `text`, a node's stacks, that fit into one message to the head, in which they are
    JSON within JSON. Lines that do not fit are left out."""
    kept, room = [], _MOST_SENT
    for line in filter(None, text.split("\n")):
        size = len(json.dumps(json.dumps(line + "\n")))
        if size <= room:
            kept.append(line + "\n")
            room -= size
    return "".join(kept)


def packages() -> str:
    """Return the path that contains the package `worldsize`: a folder, or agent.pyz."""
    found = os.path.abspath(__file__)
    for _ in range(5):  # agent, hangs, wings, worldsize, and its container
        found = os.path.dirname(found)
    return found


def start_program(program: str, order: str, output: str) -> int:
    """Start the Python code `program` as a helper of the agent that reads `order` from its standard input and writes
    its standard output to the file `output`. Return its process ID. Raise OSError."""
    with Descriptor(open_unnamed_file("order")) as descriptor:
        write_all(descriptor, order.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        argv = (sys.executable, "-I", "-S", "-c", program, packages())
        return processes.spawn_helper(sys.executable, argv, dict(os.environ), output, stdin=descriptor)
