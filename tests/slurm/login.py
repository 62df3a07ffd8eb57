"""The command line as on the login node: its runs are jobs of the cluster, and what has ended has left nothing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from driver import Cli, Result, wait_for

from slurm import processes
from slurm.cluster import OVER, Cluster

PATIENCE = 60.0
GONE_WITHIN = 3.0
HEARD_WITHIN = 15.0
"""A controller that was away when a job ended is told again after up to a minute: that is not waited for."""

SETTLED = ("state", "reason", "exit_code", "message", "failure", "started", "ended")
"""What never changes once a run has ended."""

UP = "touch outputs/up-$RANK-${SLURM_RESTART_COUNT:-0}"
PATIENT = UP + "; sleep 120"


class Login(Cli):
    """`code` of a job is the project. Jobs without `distribution` of their own have one rank per node."""

    def __init__(self, cluster: Cluster, options: str = "") -> None:
        super().__init__(tempfile.mkdtemp(dir=cluster.shared))
        self.cluster = cluster
        self.environ["SLURM_CONF"] = cluster.slurm_conf
        self.write("worldsize.toml", 'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\n' + options)

    def job(self, command: str, world: str = "2x1", name: str = "job.yml", **keys: Any) -> str:
        """A job file; its name. `keys` are further keys of it."""
        nodes, _, each = world.partition("x")
        job = {
            "command": command,
            "distribution": {"type": "pytorch", "process_count_per_instance": int(each)},
            "resources": {"instance_count": int(nodes)},
            **keys,
        }
        self.write(name, json.dumps(job, ensure_ascii=False))
        return name

    def begin(self, command: str = PATIENT, world: str = "2x1", **keys: Any) -> str:
        """A run that is submitted."""
        return self.submit(self.job(command, world, **keys))

    def prepared(self, silence: float, command: str, world: str = "2x1", **keys: Any) -> str:
        """A run that waits for `release`, whose agents will count a node as lost after `silence` seconds."""
        slurm = {**keys.pop("slurm", {}), "sbatch_options": {"begin": "now+1hour"}}
        run = self.begin(command, world, slurm=slurm, **keys)
        plan = json.loads(self.read(run, "plan.json"))
        with open(self.path(run, "plan.json"), "w") as file:
            json.dump({**plan, "silence": silence}, file)
        return run

    def release(self, *runs: str) -> None:
        for run in runs:
            self.update(self.native(run), StartTime="now")

    def running(self, command: str = PATIENT, world: str = "2x1", **keys: Any) -> str:
        """A run whose ranks are up, all of which say so as `UP` does."""
        run = self.begin(command, world, **keys)
        self.wait_up(run, world)
        return run

    def wait_up(self, run: str, world: str = "2x1", attempt: int = 0) -> None:
        nodes, _, each = world.partition("x")
        names = ["up-%d-%d" % (rank, attempt) for rank in range(int(nodes) * int(each))]
        up = wait_for(
            lambda: all(self.left(run, name) for name in names) and self.has_begun(run, attempt), PATIENCE, raises=False
        )
        assert up, "%s\n%s\n%s" % (self.status(run), self.read(run, "batch.log"), self.cluster.logs())

    def left(self, run: str, name: str) -> bool:
        """Whether a rank has left this file in the run's outputs."""
        return os.path.exists(self.path(run, "outputs", name))

    def ended(self, run: str, patience: float = PATIENCE) -> Mapping[str, Any]:
        """Its status once it has ended: final for good, its allocation released, and nothing of it left anywhere."""
        self("wait", run, "--timeout", str(patience), timeout=patience + 30)
        status = self.status(run)
        said = "%s, %s" % (status, self.told_of(self.native(run)))
        assert status["exit_code"] is not None, "it did not end in %g s: %s" % (patience, said)
        self.nothing_left(run)
        later = self.status(run)
        assert {key: later[key] for key in SETTLED} == {key: status[key] for key in SETTLED}
        return status

    def nothing_left(self, run: str) -> None:
        """Our agents and ranks at once; Slurm's own srun and batch shell may take a while to notice."""
        assert wait_for(lambda: not self.ours(run), GONE_WITHIN, raises=False), self.ours(run)
        assert wait_for(lambda: not self.alive(run), 2 * HEARD_WITHIN, raises=False), self.alive(run)
        job = self.native(run)
        if not wait_for(lambda: self.state(job) in OVER, HEARD_WITHIN, raises=False):
            self.cluster.give_up_empty()
            self.cluster.resume()
            over = wait_for(lambda: self.state(job) in OVER, PATIENCE, raises=False)
            assert over, "%s, %s" % (self.status(run), self.told_of(job))

    def alive(self, run: str) -> list[str]:
        """What lives of a run, on whatever node."""
        mark = "/runs/" + run
        return [words for pid in processes.numbers() if mark in (words := processes.words(pid)) or is_of(pid, run)]

    def ours(self, run: str) -> list[str]:
        """Agents, ranks and what these have started."""
        return [words for words in self.alive(run) if not words.startswith("srun ") and "slurm_script" not in words]

    def shadow(self, program: str, script: str) -> dict[str, str]:
        """The environment in which a program comes first on PATH; `$REAL` in it is the real one."""
        folder = os.path.join(self.root, "bin")
        os.makedirs(folder, exist_ok=True)
        real = shutil.which(program, path=self.environ["PATH"])
        path = os.path.join(folder, program)
        with open(path, "w") as file:
            file.write("#!/bin/bash\nREAL=%s\n%s\n" % (real, script))
        os.chmod(path, 0o700)
        return {"PATH": folder + ":" + self.environ["PATH"]}

    def native(self, run: str) -> str:
        """The number of its job."""
        job: str = json.loads(self.read(run, "handle.json"))["job"]
        return job

    def told_of(self, job: str) -> str:
        """All that slurmctld has to say of it."""
        return self.cluster.command("scontrol", "show", "job", job, check=False)

    def state(self, job: str) -> str:
        """As squeue has it."""
        asked = ["squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job]
        return self.cluster.command(*asked).strip()

    def hosts(self, run: str, attempt: int = 0) -> list[str]:
        """The nodes of an attempt, in order."""
        folder = self.path(run, "attempt-%d" % attempt, "events")
        firsts = [self.read(folder, name).splitlines()[0] for name in sorted(os.listdir(folder))]
        return [json.loads(first)["host"] for first in firsts]

    def update(self, job: str, **changes: str) -> None:
        self.cluster.command("scontrol", "update", "JobId=" + job, *("%s=%s" % item for item in changes.items()))

    def runs(self) -> list[str]:
        """The ids of all that is kept."""
        folder = os.path.join(self.home, "runs")
        return sorted(os.listdir(folder)) if os.path.exists(folder) else []

    def refused(self, *words: str) -> Result:
        """What is said of a job that preflight does not let through: nothing of it is kept."""
        before = self.runs()
        result = self(*words)
        assert result.code == 2, result
        assert self.runs() == before
        return result


def is_of(pid: int, run: str) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return b"SLURM_JOB_NAME=%s\0" % run.encode() in file.read()
    except OSError:
        return False


@contextmanager
def login_of(cluster: Cluster, options: str = "") -> Iterator[Login]:
    """Fails when a process of its runs is left anywhere on this machine or the nodes."""
    login = Login(cluster, options)
    yield login
    login.close()
