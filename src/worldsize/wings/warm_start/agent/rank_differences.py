"""The differences between the ranks of a node, and whether one process can become any of them. Pure functions.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.common.named_tuple import Any
from worldsize.plan.rank_variables import VARIABLES
from worldsize.wings.warm_start.judgement.python_command import PythonCommand

_MAY_DIFFER = frozenset(variable.name for variable in VARIABLES) | {"CUDA_VISIBLE_DEVICES", "PWD"}
_OF_PLACES = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "BLIS_")
"""Variables with which libraries bind their threads to CPUs. They use the CPUs that the process has when they are
loaded."""

_RANDOM = "PYTHONHASHSEED"
_HEAD_START = 0.05
"""Seconds by which the first rank of all is ahead of the other ranks of its node. Forked ranks begin at the same
moment, unlike ranks that start plainly. If torch's store does not listen yet, they retry only after half a second."""


def common_variables(ranks: Sequence[Process]) -> dict[str, str]:
    """Return the environment variables that have the same value in all `ranks` of a node, with their values."""
    first, others = ranks[0].environment, [each.environment for each in ranks[1:]]
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}


def doubt_about(ranks: Sequence[Process], words: Sequence[Sequence[str] | None]) -> str:
    """Return the reason why the `ranks` of a node cannot be forked from one process; "" if they can. `words` contains
    the words of each rank's Python command, None if a shell would split them differently."""
    names = {name for each in ranks for name in each.environment}
    common = common_variables(ranks)
    different = sorted(names.difference(common, _MAY_DIFFER))
    if different:
        return f"its ranks differ in {different[0]}"
    if common.get(_RANDOM) == "random":
        return f"{_RANDOM} is random"
    if len({len(each.cpus) for each in ranks}) > 1:
        return "its ranks have different numbers of CPUs"
    bound = next((name for name in sorted(common) if name.startswith(_OF_PLACES)), "")
    if ranks[0].cpus and bound:
        return f"{bound} binds threads to CPUs as libraries are loaded"
    if any(each is None for each in words):
        return "the shell would split the value of a variable in the command"
    if len({tuple(len(word.encode("utf-8", "surrogateescape")) for word in each or ()) for each in words}) > 1:
        return "the words of its ranks' commands differ in length"
    return ""


def variables_for(command: PythonCommand, ranks: Sequence[Process]) -> dict[str, str]:
    """Return the environment variables for the process that will become all `ranks` of a node: their common variables,
    and those of the first rank that the shell inserts into the command."""
    first = ranks[0].environment
    own = {name: first[name] for name in command.variables() if name in first}
    return {**common_variables(ranks), **own}


def place_of(rank: Process, words: Sequence[str], given: Mapping[str, str]) -> dict[str, Any]:
    """Return, as a JSON object, the differences between a rank and the preloading process, which was started with the
    variables `given`: its variables, words and CPUs, and the seconds after which it continues."""
    return {
        "variables": {name: value for name, value in rank.environment.items() if given.get(name) != value},
        "without": [name for name in given if name not in rank.environment],
        "words": list(words),
        "cpus": list(rank.cpus),
        "after": _HEAD_START if rank.ranks[0] else 0.0,
    }


def bytes_of_place(place: Mapping[str, Any]) -> int:
    """Return the number of bytes that a rank's variables in `place`, the result of `place_of`, occupy in the memory of
    a process, with the separators."""
    return sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in place["variables"].items())
