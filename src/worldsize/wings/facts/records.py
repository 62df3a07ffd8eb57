"""The reader of the files in which agents record facts about their nodes. The files may be another user's, or damaged.
So sizes and counts are bounded, and invalid parts are left out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import islice

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.json_values import PARSE_ERRORS, check_fields, require_version
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.run_paths import RunPaths
from worldsize.state.node_facts import NodeFacts, Rows

_VERSION = 1
_FILE_BYTES = 1 << 18
"""The maximum size of a file. A complete file has a hundredth of it; one of a run of ten thousand virtual nodes has a
fifth."""
_MOST_NODES = 16_384
_MOST_BYTES = 1 << 26
"""The maximum size of all files together."""
_MOST_ROWS, _LONGEST = 64, 500
_MOST_CORES = 1 << 20


class _File(NamedTuple):
    """The contents of one file: the values that several nodes have in common."""

    nodes: tuple[int, ...]
    host: str
    machine: str
    cores: int
    gpus: int


def read_node_files(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """Return the hardware and software facts of all nodes of the attempt of `paths` that have recorded any, sorted by
    node number. If two files describe one node, the first counts."""
    found: dict[int, NodeFacts] = {}
    left = _MOST_BYTES
    for path in _files(paths):
        if left <= 0 or len(found) >= _MOST_NODES:
            break
        data = read_if_possible(path, _FILE_BYTES + 1)
        left -= len(data)
        for facts in _read(data):
            if len(found) < _MOST_NODES:
                found.setdefault(facts.node_rank, facts)
    return tuple(found[number] for number in sorted(found))


def _files(paths: RunPaths) -> list[str]:
    try:
        with os.scandir(paths.facts_dir) as entries:
            names = [each.name for each in islice(entries, 4 * _MOST_NODES)]
    except OSError:
        return []  # a run that ended at once has none
    numbers = [parse_digits(name[5:-5]) for name in names if name.startswith("node-") and name.endswith(".json")]
    return [paths.node_facts(number) for number in sorted(each for each in numbers if each is not None)[:_MOST_NODES]]


def _read(data: bytes) -> list[NodeFacts]:
    try:
        return _parse(json.loads(data)) if len(data) <= _FILE_BYTES else []
    except PARSE_ERRORS:
        return []


def _parse(value: Any) -> list[NodeFacts]:
    """Return the facts of each node that one facts file describes; `value` is its parsed JSON. Raise one of
    PARSE_ERRORS."""
    require_version(value, _VERSION, "record of a node")
    nodes = tuple(value["nodes"][:_MOST_NODES])
    file = check_fields(_File(nodes, value["host"], value["machine"], value["cores"], value["gpus"]))
    if min(file.cores, file.gpus, *file.nodes) < 0 or max(file.cores, file.gpus) > _MOST_CORES:
        raise ValueError("numbers that no node has")
    hardware, software = _rows(value["hardware"]), _rows(value["software"])
    host, machine = file.host[:_LONGEST], file.machine[:_LONGEST]
    complete = value.get("complete") is not False
    return [NodeFacts(node, host, hardware, software, file.cores, file.gpus, machine, complete) for node in file.nodes]


def _rows(value: Iterable[Any]) -> Rows:
    """Return a tuple of the pairs (name, text) in a list that was read from a facts file, each text cut to the maximum
    length, and at most the maximum number of pairs. Other values are left out. Of two pairs with one name, the first is
    kept."""
    found: dict[str, str] = {}
    for row in islice(value, _MOST_ROWS):
        if isinstance(row, list) and len(row) >= 2 and isinstance(row[0], str) and isinstance(row[1], str):
            found.setdefault(row[0][:_LONGEST], row[1][:_LONGEST])
    return tuple(found.items())
