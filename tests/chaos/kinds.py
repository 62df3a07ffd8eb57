"""Every kind of fault: who is struck and how, in which jobs, at which moments, and what may come of it. Pure data.

Moments are events, never times:

setup       a line of the job's setup waits; no agent has started
meeting     the head's agent is up; no rank has started
line        a certain rank has written a certain line
ending      rank 0 has ended with 0; the others go on
stopping    rank 0 has failed with 3; the others were told to end, and do not
cancelling  somebody has cancelled; the ranks were told to end, and do not
"""

from __future__ import annotations

from typing import NamedTuple

Outcome = tuple[str, str | None]
"""A final state and its reason."""

SUCCESS: Outcome = ("SUCCEEDED", None)
CANCELLED: Outcome = ("CANCELLED", "CANCELLED_BY_USER")
EXIT_CODE: Outcome = ("FAILED", "EXIT_CODE")
SIGNAL: Outcome = ("FAILED", "SIGNAL")
NODE: Outcome = ("FAILED", "NODE_FAILURE")
SETUP: Outcome = ("FAILED", "ENVIRONMENT")
STORAGE: Outcome = ("FAILED", "STORAGE")
LOST: Outcome = ("LOST", None)

ALL = ("ranks", "tree", "script", "array")
OURS = ("ranks", "tree", "array")
RUNNING = ("line", "ending")
ANY = ("line", "ending", "stopping", "cancelling")
ALWAYS = ("setup", "meeting", *ANY)


class Kind(NamedTuple):
    """`how`: a signal's name, PAUSE (stopped, and goes on a little later), or what is done.

    outcomes  what a run may come to that nothing else ends
    """

    victim: str
    how: str
    jobs: tuple[str, ...]
    moments: tuple[str, ...]
    outcomes: frozenset[Outcome]


def _kind(victim: str, how: str, jobs: tuple[str, ...], moments: tuple[str, ...], *outcomes: Outcome) -> Kind:
    return Kind(victim, how, jobs, moments, frozenset(outcomes))


_OF_PROCESSES = (
    _kind("rank", "KILL", ALL, ANY, SIGNAL),
    _kind("rank", "TERM", ALL, RUNNING, SIGNAL),
    _kind("rank", "PAUSE", ALL, ANY, SUCCESS),
    _kind("rank", "STOP", ALL, ("line",), CANCELLED),
    _kind("child", "KILL", OURS, ANY, SUCCESS),
    _kind("agent", "KILL", ALL, ("meeting", *ANY), NODE),
    _kind("agent", "KILL", ALL, ("meeting", "line"), NODE),
    _kind("agent", "PAUSE", ALL, ANY, SUCCESS),
    _kind("agent", "TERM", OURS, ANY, CANCELLED),
    _kind("agent", "TERM", ("ranks",), ("meeting",), CANCELLED, EXIT_CODE),
    _kind("shell", "KILL", ("script",), ANY, SIGNAL),
    _kind("shell", "TERM", ("script",), RUNNING, SIGNAL),
    _kind("srun", "PAUSE", ("script",), ANY, SUCCESS),
    _kind("client", "KILL", ("ranks", "tree", "script"), ALWAYS, SUCCESS),
    _kind("client", "INT", ("ranks", "tree", "script"), ("setup", "meeting", *RUNNING), CANCELLED),
    _kind("directory", "removed", ("ranks", "tree", "script"), RUNNING, LOST),
    _kind("disk", "filled", ("ranks", "tree", "script"), RUNNING, STORAGE),
)
"""Wherever a run is."""

KINDS: dict[str, tuple[Kind, ...]] = {
    "local": (
        *_OF_PROCESSES,
        _kind("agent", "STOP", ("ranks", "tree"), ("line",), NODE),
        _kind("srun", "KILL", ("script",), ANY, SIGNAL),
        _kind("conductor", "KILL", ALL, ALWAYS, NODE),
        _kind("conductor", "KILL", ALL, ("setup", "meeting", "line"), NODE),
        _kind("conductor", "TERM", ALL, ALWAYS, CANCELLED),
        _kind("conductor", "PAUSE", ALL, ALWAYS, SUCCESS),
        _kind("all processes", "KILL", OURS, RUNNING, LOST, NODE),
        _kind("directory", "closed", ("ranks", "tree"), RUNNING, STORAGE, LOST),
    ),
    "slurm": (
        *_OF_PROCESSES,
        _kind("agent", "STOP", ("ranks", "tree"), ("line",), NODE),
        _kind("keeper", "KILL", ALL, ANY, NODE),
        _kind("srun", "KILL", OURS, ("line", "ending"), NODE, SIGNAL),
        _kind("srun", "KILL", ("script",), ANY, SIGNAL),
        _kind("srun", "TERM", OURS, RUNNING, CANCELLED, SIGNAL, NODE),
        _kind("srun", "PAUSE", OURS, ANY, SUCCESS),
        _kind("batch shell", "KILL", ("ranks",), ("setup",), SETUP),
        _kind("stepd", "KILL", OURS, ("meeting", *ANY), NODE),
        _kind("batch stepd", "KILL", ALL, ("line",), SUCCESS, NODE),
        _kind("slurmd", "KILL", ALL, ANY, SUCCESS),
        _kind("slurmd", "PAUSE", ALL, ANY, SUCCESS),
        _kind("slurmctld", "KILL", ALL, ("line",), SUCCESS),
        _kind("slurmctld", "TERM", ALL, ANY, SUCCESS),
        _kind("slurmctld", "PAUSE", ALL, ANY, SUCCESS),
        _kind("network", "cut", ("ranks", "tree"), RUNNING, NODE),
        _kind("network", "blink", ALL, ANY, SUCCESS),
        _kind("power", "off", ("ranks", "tree", "script"), RUNNING, NODE),
        _kind("job", "scancel", ALL, ALWAYS, CANCELLED),
    ),
}
