"""Programs of the corpus by `worldsize run` with a watchdog: whom it names, how, and how soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from driver import Cli
from slurm.login import Login

from hangs.cases import ANOTHER, NEVER, PROGRAMS, START, STAYS, HangCase
from hangs.harness import MPI_PYTHON
from hangs.healthy import HealthyCase
from hangs.results import ALIVE, DEFAULT, KIND, LOCAL, RIGHT, RIGHTLY_UNKNOWN, SLURM, UNKNOWN, WRONG, Outcome

KINDS = {NEVER: "H1", ANOTHER: "H2", STAYS: "H3", START: "H1"}

LIMIT = 4.0
"""Seconds of silence after which a run is looked at: on a busy machine a healthy program may take that long between
two lines."""

DEFAULT_LIMIT = 300.0
FACTOR = 6
"""Times the limit: the silence before a run's first line; that of a rank in one call of native code."""

STARTS_WITHIN = 120.0
LONGEST_HEALTHY = 400.0


def watched_run(cli: Cli, case: HangCase | HealthyCase, limit: float = LIMIT) -> Outcome:
    """Run the case with a watchdog that stops a run which hangs; on Slurm on several nodes."""
    nodes, each = _spread(case.world) if isinstance(cli, Login) else tuple(map(int, case.world.split("x")))
    python = MPI_PYTHON if case.needs == "mpi" else sys.executable
    words = [] if isinstance(case, HangCase) else ["--limit", "%g" % limit]
    job = {
        "command": " ".join([python, case.program, *case.arguments, *words]),
        "code": str(PROGRAMS),
        "environment_variables": {"PYTHONPATH": "."},
        "distribution": {
            "type": "mpi" if case.needs == "mpi" else "pytorch",
            "process_count_per_instance": each,
        },
        "resources": {"instance_count": nodes},
        "watchdog": {"timeout": limit, "action": "stop"},
        "hang_timeout": 0,
        "grace": 1,
    }
    run = cli.submit("--no-check", cli.write("%s.yml" % case.id, json.dumps(job)))
    longest = STARTS_WITHIN + 3 * FACTOR * limit
    try:
        state = _end_of(cli, run, longest if isinstance(case, HangCase) else LONGEST_HEALTHY)
        found = _hang(cli, run)
    finally:
        cli("cancel", run)
        cli("wait", run)
    where = SLURM if isinstance(cli, Login) else DEFAULT if limit == DEFAULT_LIMIT else LOCAL
    if isinstance(case, HangCase):
        return _of_hang(Outcome(where, case.id, ALIVE), case, state, found, _silence(cli, run, limit))
    if state == "SUCCEEDED":
        return Outcome(where, case.id, RIGHT)
    what = found.get("sentence") or cli("status", run).out
    return Outcome(where, case.id, WRONG, said="%s: %s" % (state, what))


def _spread(world: str) -> tuple[int, int]:
    """Nodes, and ranks on each: as many ranks, and two nodes at least."""
    nodes, each = map(int, world.split("x"))
    if nodes > 1:
        return nodes, each
    return (2, each // 2) if each % 2 == 0 else (each, 1)


def _end_of(cli: Cli, run: str, seconds: float) -> str:
    """The run's last state, or the one after so many seconds."""
    try:
        cli("wait", run, timeout=seconds)
    except subprocess.TimeoutExpired:
        pass
    return str(cli.status(run)["state"])


def _hang(cli: Cli, run: str) -> Mapping[str, Any]:
    path = cli.path(run, "attempt-0", "hang.json")
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        found: Mapping[str, Any] = json.load(file)
    return found


def _silence(cli: Cli, run: str, limit: float) -> float:
    """Seconds after which this run is looked at: longer where no rank has written a line."""
    logs = cli.path(run, "attempt-0", "logs")
    names = os.listdir(logs) if os.path.isdir(logs) else []
    spoke = any(os.path.getsize(os.path.join(logs, name)) for name in names if name.startswith("rank-"))
    return limit if spoke else FACTOR * limit


def _of_hang(none: Outcome, case: HangCase, state: str, found: Mapping[str, Any], silence: float) -> Outcome:
    """How the verdict compares with the table."""
    if found.get("alive") is not False:
        return none._replace(said="%s: %s" % (state, found.get("reason", "it was not looked at")))
    seconds = max(0.0, found["judged_at"] - found["silent_since"] - silence)
    told = none._replace(seconds=round(seconds, 1), standing=found["standing"], said=found["sentence"])
    if not found["ranks"]:
        return told._replace(outcome=UNKNOWN if case.ranks else RIGHTLY_UNKNOWN)
    if set(found["ranks"]) != set(case.ranks):
        return told._replace(outcome=WRONG)
    place = None
    if not case.ended and case.place is not None:
        place = bool(found["place"]) and ("%s:%d" % tuple(found["place"][:2])).endswith("/" + case.place)
    return told._replace(outcome=RIGHT if found["kind"] == KINDS[case.kind] else KIND, place=place)
