"""The information of a run's agents about event files: which files they have seen open, and which processes are the
ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.wings.metrics.run_files import all_attempts

_MOST_BYTES = 4 << 20
_MOST_NOTES = 10_000
_LONGEST_PATH = 4096


class Note(NamedTuple):
    """A record of an event file that an agent has seen open. `path` is as the process sees it. On another machine or in
    a container, it may not exist, or be another file."""

    path: str
    rank: int
    attempt: int
    node_rank: int


class Writers(NamedTuple):
    """The processes that may write event files, according to the agents.

    ranks   attempt and rank of each process that an agent has started as a rank, by host and pid
    starts  when each attempt began, by its number; unknown ones are missing
    hosts   the names of nodes
    """

    ranks: dict[tuple[str, int], tuple[int, int]]
    starts: dict[int, float]
    hosts: set[str]


def read_notes(paths: RunPaths) -> list[Note]:
    """Return the records of all attempts about TensorBoard files that the run's agents have seen open. Lines that
    cannot be understood are left out."""
    return list(_all_notes(paths))[:_MOST_NOTES]


def _all_notes(paths: RunPaths) -> Iterator[Note]:
    for each in all_attempts(paths):
        for node_rank in _nodes(each.metrics_dir, "files-"):
            lines = read_if_possible(each.tensorboard_files(node_rank), _MOST_BYTES).split(b"\n")[:_MOST_NOTES]
            for line in lines:
                path, rank = _parse(line)
                if path:
                    yield Note(path, rank, each.attempt, node_rank)


def _parse(line: bytes) -> tuple[str, int]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # cut, or not JSON
        return "", 0
    path, rank = (value.get("path"), value.get("rank")) if isinstance(value, dict) else (None, None)
    if not isinstance(path, str) or type(rank) is not int or not 0 <= rank < 1 << 31:
        return "", 0
    return (path, rank) if os.path.isabs(path) and "\0" not in path and len(path) <= _LONGEST_PATH else ("", 0)


def read_writers(paths: RunPaths, wanted: Iterable[tuple[str, int]]) -> Writers:
    """Return the processes of the run's ranks that may write TensorBoard files, according to the events of the agents
    in all attempts. Reading stops when all `wanted` ones, pairs of host and pid, are found, because there may be
    thousands of nodes."""
    missing = set(wanted)
    writers = Writers({}, {}, set())
    for each in all_attempts(paths):
        for node_rank in _nodes(each.events_dir, "node-"):
            if node_rank and not missing:
                break
            missing -= _add_node(each, node_rank, writers)
    return writers


def _add_node(paths: RunPaths, node_rank: int, writers: Writers) -> set[tuple[str, int]]:
    """Add the host, the start time and the rank processes in the events of one node's agent to `writers`; return the
    processes that they name, as pairs of host and pid."""
    host, found = "", set()
    for event in read_events(paths, node_rank):
        if event.get("event") == "agent_started" and isinstance(event.get("host"), str):
            host = event["host"]
            writers.hosts.add(host)
            if is_number(event.get("time")):
                writers.starts.setdefault(paths.attempt, float(event["time"]))
        elif event.get("event") == "ranks_started":
            for pid, rank in _ranks(event.get("pids")):
                writers.ranks[host, pid] = (paths.attempt, rank)
                found.add((host, pid))
    return found


def _ranks(pids: Any) -> Iterator[tuple[int, int]]:
    """Yield the pid and the rank of each process in the field `pids` of an agent's event, which maps ranks to pids."""
    for name, pid in pids.items() if isinstance(pids, dict) else ():
        rank = parse_digits(name)
        if rank is not None and type(pid) is int:
            yield pid, rank


def host_of(paths: RunPaths, note: Note) -> str:
    """Return the host name of the node whose agent wrote the note about a TensorBoard file; "" if it is not known."""
    events = read_events(RunPaths(paths.root, note.attempt), note.node_rank)
    hosts = [event.get("host") for event in events if event.get("event") == "agent_started"]
    return hosts[0] if hosts and isinstance(hosts[0], str) else ""


def _nodes(directory: str, prefix: str) -> list[int]:
    names = (name.partition(".")[0] for name in _names(directory) if name.startswith(prefix))
    return sorted(number for number in map(_number, names) if number is not None)


def _number(name: str) -> int | None:
    return parse_digits(name.rpartition("-")[2]) if len(name) < 32 else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
