"""This node's ranks of a group that runs one program with torch: started, joined, and ended.

Rank 0 opens the store at a port that the kernel chooses; its node tells the others which, by its listener. Standard
library only: travels inside agent.pyz (Python >= 3.8).
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
    """Return the reports of this node's ranks, by rank. Raises OSError where Python cannot be started.

    The order: `backend` and `size`, as the program takes them; `world`, `first` and `count` of the ranks; `address` of
    the node of rank 0; `seconds` for all, and `together` once all are there; `store`, the listener of the node of rank
    0, or None for that node, which tells `readers` others by connections of this kind.
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
    """Raises OSError, with none of them left. GPUs are numbered as nvidia-smi numbers them, unless the job says
    otherwise."""
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
    """Return the port of this node's store, once rank 0 has it, which the other nodes are told; 0 where it gets
    none."""
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
        pass  # that node is late, or gone: its ranks report that they were told of no port


def _port_of_other(order: Mapping[str, Any], kind: str, deadline: float) -> int:
    """Return the port that the node of rank 0 tells; 0 where it does not."""
    other = order["store"]
    try:
        with listener.connect(other["address"], other["port"], other["token"], kind, 5.0) as connection:
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            return parse_digits(connection.recv(16).decode("ascii", "replace").strip()) or 0
    except OSError:
        return 0  # what keeps it from the other's listener is a row of the stage before
