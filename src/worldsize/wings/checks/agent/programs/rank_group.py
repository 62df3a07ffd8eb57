"""The ranks of this node in a group that runs one torch program: their start, their rendezvous and their end.

Rank 0 opens the store on a port that the kernel chooses. Its node sends the port to the other nodes through its
listener.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.rank_program import RankProgram
from worldsize.wings.checks.agent.readers.rank_directory import rank_python


def reports_of_ranks(
    context: NodeContext, order: Mapping[str, Any], program: str, kind: str
) -> dict[str, dict[str, Any]]:
    """Run this node's ranks of a torch program together with the ranks of the other nodes. Return a mapping of each
    rank's number, as text, to its report. Raise OSError if Python cannot be started.

    The order contains: `backend` and `size`, the arguments of the program; `world`, the world size; `first` and
    `count`, the first rank and the number of ranks of this node; `address`, that of the node of rank 0; `seconds`, the
    time limit of everything; `together`, the time limit once all ranks have arrived; `store`, the listener of the node
    of rank 0, or None on that node, which sends the store's port to `readers` other nodes over the listener's
    connections of this `kind`.
    """
    deadline = time.monotonic() + order["seconds"]
    ranks = _start_ranks(context, order, program)
    try:
        port = _port_of_other(order, kind, deadline) if order["store"] else _own_port(order, ranks[0], kind, deadline)
        for rank in ranks if port else []:
            rank.tell(str(port))
        for rank in ranks if port else ranks[:1]:
            rank.wait(deadline)
    finally:
        reports = [rank.stop() for rank in ranks]
    return {str(order["first"] + at): report for at, report in enumerate(reports)}


def _start_ranks(context: NodeContext, order: Mapping[str, Any], program: str) -> list[RankProgram]:
    """Start this node's ranks, as `order` describes them, and return a RankProgram for each. If one cannot be started,
    stop those already started and raise OSError. GPUs have the numbers of nvidia-smi unless the job sets
    CUDA_DEVICE_ORDER."""
    python = rank_python(context)
    environ = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **context.environ, "OMP_NUM_THREADS": "1"}
    started: list[RankProgram] = []
    try:
        for local in range(order["count"]):
            numbers = (order["first"] + local, order["world"], local, order["together"])
            arguments = [*map(str, numbers), order["backend"], order["address"], str(order["size"])]
            started.append(RankProgram(python, program, arguments, environ))
    except OSError:
        for each in started:
            each.stop()
        raise
    return started


def _own_port(order: Mapping[str, Any], first: RankProgram, kind: str, deadline: float) -> int:
    """Wait until rank 0, which runs on this node, has opened the store, and return the store's port. Start threads that
    send the port to the other nodes. Return 0 if rank 0 reports no port before the deadline."""
    port = first.wait_for("port", deadline)
    port = port if isinstance(port, int) else 0
    for _ in range(order["readers"]):
        threading.Thread(target=_tell, args=(port, kind, deadline), daemon=True).start()
    return port


def _tell(port: int, kind: str, deadline: float) -> None:
    try:
        with listener.take(kind, max(0.0, deadline - time.monotonic())) as reader:
            reader.sendall(f"{port}\n".encode())
    except OSError:
        pass  # that node is late or gone: its ranks report that they received no port


def _port_of_other(order: Mapping[str, Any], kind: str, deadline: float) -> int:
    """Return the port of rank 0's store, which the node of rank 0 sends through its listener; 0 if no port arrives
    before the deadline."""
    other = order["store"]
    try:
        with listener.connect(other["address"], other["port"], other["token"], kind, 5.0) as connection:
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            return parse_digits(connection.recv(16).decode("ascii", "replace").strip()) or 0
    except OSError:
        return 0  # an earlier stage has a row on why that listener is not reachable
