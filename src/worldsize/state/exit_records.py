"""Reads what agents left: events and exit records, only those that are whole, and their codes."""

from __future__ import annotations

import json
import os

from worldsize.common.atomic_files import read_file, read_if_possible
from worldsize.common.json_values import PARSE_ERRORS, check_fields, is_number, tuple_of
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import ExitRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def read_events(paths: RunPaths, node_rank: int) -> list[dict[str, Any]]:
    """Return a node's events, without a line that is still being written, and those that a full disk cut; none without
    a file."""
    lines = read_if_possible(paths.events(node_rank)).decode("utf-8", "replace").split("\n")[:-1]
    return [event for event in map(_event, lines) if event is not None]


def _event(line: str) -> dict[str, Any] | None:
    """Return the event in a line; None where the line is cut or damaged."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_hosts(paths: RunPaths, node_ranks: Iterable[int]) -> dict[int, str]:
    """By these nodes' numbers, what their agents have said that their hosts are called; without those that have said
    nothing yet."""
    found = {}
    for node_rank in node_ranks:
        for event in read_events(paths, node_rank):
            if event.get("event") == "agent_started" and isinstance(event.get("host"), str):
                found[node_rank] = event["host"]
    return found


def read_exit(paths: RunPaths, node_rank: int) -> ExitRecord | None:
    """Return the node's exit record; None where there is none, or it is damaged."""
    try:
        record = check_fields(tuple_of(ExitRecord, json.loads(read_file(paths.exit_record(node_rank)))))
        return record if record.node_rank == node_rank else None
    except (OSError, *PARSE_ERRORS):
        return None


def read_exits(paths: RunPaths, nodes: int) -> tuple[ExitRecord, ...]:
    """Return the whole exit records of these nodes, in order."""
    try:
        if not os.listdir(paths.exit_dir):
            return ()
    except OSError:
        return ()
    found = (read_exit(paths, node_rank) for node_rank in range(nodes))
    return tuple(record for record in found if record is not None)


def ranks_start_time(paths: RunPaths) -> float | None:
    """When the head's agent had started its ranks, which it does when all nodes are there; None before."""
    times: list[Any] = [event.get("time") for event in read_events(paths, 0) if event.get("event") == "ranks_started"]
    return float(times[0]) if times and is_number(times[0]) else None


def signal_name(code: int) -> str | None:
    """`SIGKILL` for 137: the signal that an exit code of 128+N stands for; None for a code that stands for none."""
    from signal import Signals  # its numbers become enumerations as it is imported: 0.5 ms

    try:
        return Signals(code - 128).name
    except ValueError:
        return None
