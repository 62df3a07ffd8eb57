"""Why our agents did not start on a node, from what srun, the shell before them and they themselves said. Pure.

Texts of Slurm are those of src/api/step_launch.c and src/srun, 20.11 to 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from worldsize.plan.setup import NO_RUN, REPLACEABLE
from worldsize.state.records import Reason

_OURS = "worldsize agent: "
_UNREACHED = re.compile(r"srun: error: Task launch for \S+ failed on node (\S+): (.+)")
_EXITED = re.compile(r"srun: error: (\S+): tasks? ([0-9]{1,9})\b.*: Exited with exit code ([0-9]{1,9})$")
_KILLED = re.compile(r"srun: error: (\S+): tasks? [0-9]{1,9}\b.*: Killed$")
_SHELL = re.compile(r"\S+: (?:line )?\d+: (?:exec: )?(.+)")
_NO_PROGRAM = (126, 127)


class Cause(NamedTuple):
    """`certain`: no rank can have started; otherwise it is only what the first agent that failed has said."""

    reason: str
    words: str
    certain: bool = True


def cause(batch: Sequence[str], log: Callable[[int], Sequence[str]]) -> Cause | None:
    """What the lines of a batch script's log, and those of a node's agent by its rank, say of the node that failed
    first; None where no node did."""
    unreached = {match[1]: match[2] for match in map(_UNREACHED.match, batch) if match}
    if unreached:
        return _unreached(unreached)
    for line in batch:
        killed, match = _KILLED.match(line), _EXITED.match(line)
        if killed is not None:
            return Cause(Reason.NODE_FAILURE, "the agent on %s was killed (SIGKILL)" % killed[1], False)
        if match is not None:
            return _ended(match[1], int(match[3]), batch, [line for line in log(int(match[2])) if line.strip()])
    return None


def _unreached(why: dict[str, str]) -> Cause:
    nodes = ",".join(why)
    what = "srun could not start anything on %s: %s (to do without: slurm.exclude: %s)"
    return Cause(Reason.NODE_FAILURE, what % (nodes, "; ".join(dict.fromkeys(why.values())), nodes))


def _ended(node: str, code: int, batch: Sequence[str], said: Sequence[str]) -> Cause:
    if code == NO_RUN:
        shell = [match[1] for match in map(_SHELL.match, batch) if match and "agent-" in match[1]]
        what = "%s does not see the run directory, or may not write there: is its file system mounted?" % node
        return Cause(Reason.ENVIRONMENT, " ".join([what, *("(%s)" % words for words in shell[:1])]))
    if code == REPLACEABLE:
        return Cause(
            Reason.ENVIRONMENT, "; ".join(_words(said)) or "somebody else could replace what ranks execute on %s" % node
        )
    if code in _NO_PROGRAM and said:
        shown = _SHELL.match(said[-1])
        what = "%s cannot start the agent: %s (another interpreter: `python` of the compute)"
        return Cause(Reason.ENVIRONMENT, what % (node, shown[1] if shown else said[-1]))
    return Cause(
        Reason.EXIT_CODE, ": ".join(["the agent on %s ended with code %d" % (node, code), *_words(said)]), False
    )


def _words(said: Sequence[str]) -> Sequence[str]:
    """Those that are an agent's own, else the last."""
    ours = [line[len(_OURS) :] for line in said if line.startswith(_OURS)]
    return ours[-1:] or [line.strip() for line in said[-1:]]
