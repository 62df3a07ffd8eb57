"""Why no agent started on a node, and on which, from what Slurm's own programs printed."""

from __future__ import annotations

import pytest

from worldsize.service.runs.start_failures import StartFailure, find_start_failure
from worldsize.state.records import Reason

BEFORE = [
    "srun: cluster configuration lacks support for cpu binding",
    "slurmstepd-node2: error: couldn't chdir to `/nfs/train': No such file or directory: going to /tmp instead",
]
AFTER = [
    "srun: launch/slurm: _step_signal: Terminating StepId=2.0",
    "slurmstepd-node1: error: *** STEP 2.0 ON node1 CANCELLED AT 2026-11-22T14:34:03 ***",
    "srun: error: node1: task 0: Terminated",
    "srun: Force Terminated StepId=2.0",
]
OTHER = "srun: error: node1: task 0: Exited with exit code 143"


def of(*batch: str, **logs: list[str]) -> StartFailure | None:
    """What is made of a batch script's log and of agents' logs, `node1` that of node 1."""
    return find_start_failure([*BEFORE, *batch, *AFTER], lambda node_rank: logs.get("node%d" % node_rank, []))


def exited(code: int, who: str = "node2: task 1") -> str:
    return "srun: error: %s: Exited with exit code %d" % (who, code)


@pytest.mark.parametrize("why", ["Communication connection failure", "Socket timed out on send/recv operation"])
def test_nodes_that_srun_cannot_reach_are_named_not_those_whose_step_it_ends_then(why: str) -> None:
    lines = ["srun: error: Task launch for StepId=7.0 failed on node %s: %s" % (node, why) for node in ("n2", "n4")]
    what = "srun could not start anything on n2,n4: %s (to exclude it: slurm.exclude: n2,n4)" % why
    assert of(*lines, "srun: error: Application launch failed: %s" % why) == StartFailure(Reason.NODE_FAILURE, what)


@pytest.mark.parametrize("shell", ["sh: 1: cannot create %s: %s", "sh: line 1: %s: %s", "sh: 2: cannot create %s: %s"])
def test_a_node_that_does_not_see_the_run_directory(shell: str) -> None:
    what = "node2 does not see the run directory, or may not write there: is its file system mounted?"
    assert of(exited(73), OTHER) == StartFailure(Reason.ENVIRONMENT, what)
    said = shell % ("/nfs/runs/7/attempt-0/logs/agent-0001.log", "Read-only file system")
    more = " (%s)" % said.partition(": ")[2].partition(": ")[2]
    for lines in ((said, exited(73)), (exited(73), OTHER, said)):
        assert of(*lines) == StartFailure(Reason.ENVIRONMENT, what + more)


@pytest.mark.parametrize("said", ["sh: 3: exec: /opt/python3: not found", "sh: line 3: /opt/python3: not found"])
def test_a_node_without_the_interpreter(said: str) -> None:
    what = "node2 cannot start the agent: /opt/python3: not found (another interpreter: `python` of the compute)"
    assert of(exited(127), OTHER, node1=[said]) == StartFailure(Reason.ENVIRONMENT, what)


def test_an_agent_that_ended_is_quoted() -> None:
    own = ["worldsize agent: plan.json: cannot be used: no JSON", "  → take another", ""]
    what = "the agent on node[2-3] ended with code 1: "
    several = exited(1, "node[2-3]: tasks 1-2")
    expected = StartFailure(Reason.EXIT_CODE, what + "plan.json: cannot be used: no JSON", certain=False)
    assert of(several, OTHER, node1=own, node0=["bye"]) == expected
    expected = StartFailure(Reason.EXIT_CODE, what + "SyntaxError: invalid syntax", certain=False)
    assert of(several, node1=["  File x", "SyntaxError: invalid syntax", ""]) == expected
    assert of(several) == StartFailure(Reason.EXIT_CODE, what[:-2], certain=False)


def test_a_step_that_was_ended_says_nothing_of_why() -> None:
    assert of() is None


def test_an_agent_that_was_killed_is_a_node_failure() -> None:
    found = of("srun: error: node2: task 1: Killed")
    assert found == StartFailure(Reason.NODE_FAILURE, "the agent on node2 was killed (SIGKILL)", certain=False)
    assert of(exited(1), "srun: error: node1: task 0: Killed") != found
