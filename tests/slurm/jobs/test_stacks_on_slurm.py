"""stacks on a real cluster: its ranks are on other machines, and a batch script's are no children of an agent's.

On this machine: tests/e2e/command_line/test_stacks_verb.py.
"""

from __future__ import annotations

import json
from typing import Any

from driver import wait_for
from slurm.login import Login

TRAIN = """
import os, threading, time
def load():
    time.sleep(600)
def main():
    if os.environ.get("WORLDSIZE_RANK", os.environ["SLURM_PROCID"]) == "2":
        load()
    threading.Event().wait()
main()
"""


def settled(login: Login, run: str) -> dict[str, Any]:
    """What is told once all ranks have come to where they wait."""
    found: dict[str, Any] = {}

    def has_settled() -> bool:
        result = login("stacks", run, "--seconds", "0.2", "-o", "json", timeout=120)
        found.update(json.loads(result.out) if result.code == 0 else {})
        kinds = [(rank["waits_for"] or {}).get("kind") for rank in found.get("ranks", ())]
        return kinds == ["lock", "lock", "sleep", "lock"]

    wait_for(has_settled, 60)
    return found


def test_ranks_of_agents(login: Login) -> None:
    login.write("train.py", TRAIN)
    run = login.begin("python3 train.py", "2x2", code=".")
    wait_for(lambda: login.has_begun(run), 60)
    found = settled(login, run)
    assert [group["ranks"] for group in found["groups"]] == [[2], [0, 1, 3]] and found["unanswered"] == []
    assert [rank["node"] for rank in found["ranks"]] == [0, 0, 1, 1]
    lines = login.ok("stacks", "--once", "--rank", "2").lines
    assert lines[0] == "rank 2: sleeps in sleep at train.py:4 in load"
    assert "rank 2 on node 1, process %d" % found["ranks"][2]["pid"] in lines[3]
    login.ok("cancel", run, "--now")
    over = login("stacks", run)
    assert over.code == 2 and "worldsize why " + run in over.err


def test_ranks_that_a_batch_script_starts(login: Login) -> None:
    login.write("train.py", TRAIN)
    login.write("job.slurm", "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\nsrun python3 train.py\n")
    run = login.submit("job.slurm")
    wait_for(lambda: login.has_begun(run), 60)
    found = settled(login, run)
    assert [group["ranks"] for group in found["groups"]] == [[2], [0, 1, 3]] and found["unanswered"] == []
    login.ok("cancel", run, "--now")
