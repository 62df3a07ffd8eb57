"""Readers of the files that agents leave: complete events and exit records; and the names of signals in exit codes."""

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
    """Return the events that the agent of the node `node_rank` has recorded, as a list of JSON objects. A last line
    that is still being written is left out, and so are lines that a full disk has cut. An empty list if there is no
    file."""
    lines = read_if_possible(paths.events(node_rank)).decode("utf-8", "replace").split("\n")[:-1]
    return [event for event in map(_event, lines) if event is not None]


def _event(line: str) -> dict[str, Any] | None:
    """Return the event that one line of a node's events file contains, as a JSON object; None if the line is cut or
    damaged."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_hosts(paths: RunPaths, node_ranks: Iterable[int]) -> dict[int, str]:
    """Return the host name of each of the nodes `node_ranks` that its agent has recorded, as a mapping of node rank to
    host. Nodes without a record are left out."""
    found = {}
    for node_rank in node_ranks:
        for event in read_events(paths, node_rank):
            if event.get("event") == "agent_started" and isinstance(event.get("host"), str):
                found[node_rank] = event["host"]
    return found


def read_exit(paths: RunPaths, node_rank: int) -> ExitRecord | None:
    """Return the exit record that the agent of the node `node_rank` wrote at its end; None if there is none, or it is
    damaged."""
    try:
        record = check_fields(tuple_of(ExitRecord, json.loads(read_file(paths.exit_record(node_rank)))))
        return record if record.node_rank == node_rank else None
    except (OSError, *PARSE_ERRORS):
        return None


def read_exits(paths: RunPaths, nodes: int) -> tuple[ExitRecord, ...]:
    """Return the valid exit records of the nodes 0 to `nodes` - 1, in order."""
    try:
        if not os.listdir(paths.exit_dir):
            return ()
    except OSError:
        return ()
    found = (read_exit(paths, node_rank) for node_rank in range(nodes))
    return tuple(record for record in found if record is not None)


def ranks_start_time(paths: RunPaths) -> float | None:
    """Return the Unix time at which the agent of the head node had started its ranks, which it does when all nodes have
    joined; None before."""
    times: list[Any] = [event.get("time") for event in read_events(paths, 0) if event.get("event") == "ranks_started"]
    return float(times[0]) if times and is_number(times[0]) else None


def signal_name(code: int) -> str | None:
    """Return the name of the signal of an exit code 128+N, such as `SIGKILL` for 137; None for a code without a
    signal."""
    from signal import Signals  # the import builds enumerations: 0.5 ms

    try:
        return Signals(code - 128).name
    except ValueError:
        return None
