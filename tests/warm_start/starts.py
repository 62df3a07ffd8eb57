"""Runs the same script cold and warm, and keeps what both have left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from driver import Cli

HERE = Path(__file__).parent
RANKS = 2
DRAWN = {"CCP_JOBID", "JAX_COORDINATOR_ADDRESS", "MASTER_PORT", "SLURM_JOB_ID", "WORLDSIZE_RANK_PYTHON"}
"""Variables with a port, a number of the run, or the process' own."""


class Found(NamedTuple):
    """What one run has left: what its ranks have written, their logs, their exceptions, the events of their node."""

    ranks: list[dict[str, Any]]
    logs: list[str]
    errors: list[dict[str, Any]]
    events: list[dict[str, Any]]
    codes: list[int]


class Starts:
    """Runs commands, cold or warm, each in a place of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[Cli] = []

    def __call__(self, preload: str, command: str, code: int = 0, **scripts: str) -> Found:
        place = self.root / ("run-%02d" % len(self.made))
        place.mkdir()
        cli = Cli(str(place))
        self.made.append(cli)
        shutil.copy(HERE / "rank_probe.py", cli.project)
        for name, text in scripts.items():
            cli.write(name + ".py", text)
        out = os.path.join(cli.project, "out")
        os.mkdir(out)
        job = "command: %s\ncode: .\ndistribution: {type: pytorch, process_count_per_instance: %d}\npreload: %s\n"
        cli.write("job.yml", job % (json.dumps(command.replace("OUT", out)), RANKS, preload))
        run = cli.run("job.yml", code=code)
        found = Found(
            [json.loads(Path(out, name).read_text()) for name in sorted(os.listdir(out))],
            [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(RANKS)],
            [json.loads(each.read_text()) for each in sorted(Path(cli.path(run, "attempt-0", "errors")).iterdir())],
            cli.events(run, 0),
            [rank["code"] for rank in json.loads(cli.read(run, "attempt-0", "exit", "node-0000.json"))["ranks"]],
        )
        text = json.dumps(found._asdict()).replace(str(place), "PLACE").replace(run, "RUN")
        return Found(**json.loads(text))

    def close(self) -> None:
        for cli in self.made:
            cli.close()


def way(found: Found) -> str | None:
    """How the ranks were started, by the event; None where nothing was to be preloaded."""
    return next((each.get("start") for each in found.events if each["event"] == "ranks_started"), None)


def differences(cold: Any, warm: Any) -> dict[str, Any]:
    """What is not the same; of variables each by its name, and not those that each run draws anew."""
    if isinstance(cold, dict):
        names = {name for name in {*cold, *warm} - DRAWN if cold.get(name) != warm.get(name)}
        return {name: (cold.get(name), warm.get(name)) for name in names}
    return {} if cold == warm else {"": (cold, warm)}
