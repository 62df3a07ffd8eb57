"""Programs in ranks that say as one line of JSON which place in the world a framework found."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from driver import Cli, Result
from training import PATIENCE, ROOT

SAY = """
def say(**found):
    import json, os
    os.write(1, ("FOUND " + json.dumps(found) + "\\n").encode())
"""
"""In one piece: several processes of a rank write to one log."""

LEAVE = """
import sys
if "torch" in sys.modules and sys.modules["torch"].distributed.is_initialized():
    sys.modules["torch"].distributed.destroy_process_group()
"""
"""The end of each program. A group of gloo that is left to the interpreter, as Lightning does, sometimes aborts the
process with "terminate called without an active exception", after all its work."""


def run(cli: Cli, command: str, world: str, environment: str, **keys: Any) -> Result:
    """The end of a run of plain ranks whose programs are those of an environment of this checkout. It is named by PATH:
    the nodes of HPC Pack have another name for the directories of jobs."""
    programs = os.path.join(ROOT, environment, "bin")
    job = {"command": "PATH=%s:$PATH; %s" % (programs, command), "code": ".", **keys}
    cli.write("job.yml", json.dumps(job))
    return cli("run", "job.yml", "-w", world, timeout=PATIENCE)


def places(cli: Cli, program: str, world: str, environment: str, command: str = "python found.py", **keys: Any) -> Any:
    """What all processes of a run that succeeds have found, in the order of their ranks (`rank`)."""
    cli.write("found.py", SAY + program + LEAVE)
    result = run(cli, command, world, environment, **keys)
    assert result.code == 0, result
    run_id = cli.latest()
    logs = [
        cli.read(run_id, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(cli.status(run_id)["ranks"])
    ]
    lines = [line for log in logs for line in re.findall(r"FOUND (.*)", log)]
    return sorted((json.loads(line) for line in lines), key=lambda found: found["rank"])


def numbers(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Rank and world size of each."""
    return [(each["rank"], each["world"]) for each in found]
