"""This machine and its virtual nodes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from driver import Cli

from chaos import worlds
from chaos.plans import Strike, Trial
from chaos.worlds import Disturbance, Stage


class Ordinary(Cli):
    """Permissions hold for it."""

    ordinary = True


class LocalWorld:
    compute = "local"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @contextmanager
    def stage(self, trial: Trial) -> Iterator[Stage]:
        root = tempfile.mkdtemp(prefix=trial.id + "-", dir=self.folder)
        kind = Ordinary if any(strike.how == "closed" for strike in trial.strikes) else Cli
        stage = Stage(trial, kind(root))
        if any(strike.victim == "disk" for strike in trial.strikes):
            with worlds.small_disk(os.path.join(root, "disk")) as disk:
                stage.cli.home = stage.cli.environ["WORLDSIZE_HOME"] = os.path.join(disk, "home")
                yield stage
        else:
            yield stage

    def job(self, stage: Stage) -> tuple[str, ...]:
        return worlds.write_job(stage, {})

    def submit(self, stage: Stage, words: Sequence[str]) -> str:
        return stage.cli.submit(*words)

    def victims(self, stage: Stage, strike: Strike) -> list[int]:
        run, conductor = stage.run, self._conductor(stage)
        if strike.victim == "rank":
            return worlds.uppermost_rank(run, strike.place)
        if strike.victim == "child":
            return worlds.child_of_rank(run, strike.place)
        if strike.victim == "agent":
            return self._agents(stage)[strike.place : strike.place + 1]
        if strike.victim == "conductor":
            return [conductor]
        if strike.victim == "all processes":
            return [conductor, *self._agents(stage)]
        if strike.victim == "shell":
            agents = self._agents(stage)
            return [each.pid for each in worlds.of_run(run) if worlds.parent(each.pid) in agents][:1]
        if strike.victim == "srun":
            return [each.pid for each in worlds.of_run(run) if "srun" in each.argv and "slurm.py" in str(each.argv)][:1]
        raise ValueError(strike.victim)

    def _conductor(self, stage: Stage) -> int:
        with suppress(FileNotFoundError):
            return int(json.loads(stage.cli.read(stage.run, "handle.json"))["pid"])
        return 0

    def _agents(self, stage: Stage) -> list[int]:
        nodes = 1 if stage.trial.job == "script" else stage.trial.nodes
        events = [stage.cli.events(stage.run, node) for node in range(nodes)]
        return [event[0]["pid"] for event in events if event]

    def disturb(self, stage: Stage, strike: Strike) -> Disturbance | None:
        directory = stage.cli.path(stage.run)
        if strike.how == "removed":
            worlds.remove(directory)
            return Disturbance(lambda: None)
        if strike.how == "closed":
            os.chmod(directory, 0)
            return Disturbance(lambda: os.chmod(directory, 0o700))
        if strike.how == "filled":
            filler = worlds.fill(os.path.dirname(stage.cli.home))
            return Disturbance(lambda: os.unlink(filler))
        return None

    def left(self, stage: Stage, run: str) -> list[str]:
        return [" ".join(each.argv) for each in worlds.of_run(run)]

    def held(self, stage: Stage, run: str) -> list[str]:
        return []
