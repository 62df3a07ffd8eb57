"""The real Slurm cluster of the tests, one of its own for a series of trials."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from driver import wait_for
from slurm.boot import HOME
from slurm.cluster import OVER, Cluster, Flavour
from slurm.login import Login
from slurm.processes import Process, living_in

from chaos import worlds
from chaos.plans import Strike, Trial
from chaos.worlds import A_WHILE, Disturbance, Stage
from worldsize.plan.handle import read_handle
from worldsize.plan.run_paths import RunPaths

SILENCE = 3.0
SAVED_WITHIN = 30.0
RELEASED_WITHIN = 60.0
PYTHON = """\
#!/bin/sh
# The agents' interpreter; that of node 1 waits while the trial wants the head to be alone.
if [ "$SLURM_NODEID" = 1 ] && [ -e {at}/late ]; then
    until [ -e {at}/meet ]; do sleep 0.05; done
fi
exec /usr/bin/python3 "$@"
"""


class SlurmWorld:
    """`disk` is a small file system that all nodes see."""

    compute = "slurm"

    def __init__(self, cluster: Cluster, disk: str) -> None:
        self.cluster = cluster
        self.disk = disk

    @contextmanager
    def stage(self, trial: Trial) -> Iterator[Stage]:
        login = Login(self.cluster)
        stage = Stage(trial, login)
        if any(strike.victim == "disk" for strike in trial.strikes):
            login.home = login.environ["WORLDSIZE_HOME"] = os.path.join(self.disk, trial.id)
        python = os.path.join(login.root, "python")
        with open(python, "w") as file:
            file.write(PYTHON.format(at=stage.at))
        os.chmod(python, 0o755)
        with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
            file.write('python = "%s"\n' % python)
        try:
            yield stage
        finally:
            self._restore()
            shutil.rmtree(os.path.join(self.disk, trial.id), ignore_errors=True)

    def _restore(self) -> None:
        """As found, whatever the trial has left: that it has told by now."""
        self.cluster.restore()
        for node in self.cluster.node_names:
            worlds.send([each.pid for each in self.cluster.processes(node)], signal.SIGKILL)
        self.cluster.clear_tmp()

    def job(self, stage: Stage) -> tuple[str, ...]:
        if stage.trial.moment == "meeting":
            stage.say("late")
        if stage.trial.job == "script":
            stage.say("childless")  # no agent is on the other nodes, and without control groups Slurm would leave them
        held = {"begin": "now+1hour"} if self._is_held(stage) else {}
        slurm: dict[str, object] = {"requeue": False, "sbatch_options": held}
        return worlds.write_job(stage, {"slurm": slurm}, ["--no-requeue"])

    def _is_held(self, stage: Stage) -> bool:
        """Whether the run waits until its plan says after how long a node counts as lost."""
        trial = stage.trial
        direct = any(strike.victim == "client" or strike.how == "removed" for strike in trial.strikes)
        return trial.job in ("ranks", "tree") and not direct

    def submit(self, stage: Stage, words: Sequence[str]) -> str:
        run = stage.cli.submit(*words)
        if self._is_held(stage):
            path = stage.cli.path(run, "plan.json")
            plan = json.loads(stage.cli.read(run, "plan.json"))
            with open(path, "w") as file:
                json.dump({**plan, "silence": SILENCE}, file)
            self.cluster.command("scontrol", "update", "JobId=" + self._native(stage, run), "StartTime=now")
        return run

    def _native(self, stage: Stage, run: str) -> str:
        """An element's number stands with its array."""
        handle = read_handle(RunPaths(stage.cli.path(run)))
        return str(handle["job"]) if handle else ""

    # Victims

    def victims(self, stage: Stage, strike: Strike) -> list[int]:
        victim, place, run = strike.victim, strike.place, stage.run
        if victim == "rank":
            return worlds.uppermost_rank(run, place)
        if victim == "child":
            return worlds.child_of_rank(run, place)
        if victim in ("stepd", "batch stepd"):
            return self._stepd(stage, "batch" if victim == "batch stepd" else "0", place)
        of_run = list(worlds.of_run(run))
        if victim in ("agent", "keeper"):
            there = self._agents(of_run, place if stage.trial.job != "script" else 0)
            return there[1:2] if victim == "agent" else there[:-1][:1]
        if victim == "srun":
            return sorted(each.pid for each in of_run if each.name == "srun")[:1]
        if victim == "batch shell":
            return sorted(each.pid for each in of_run if any("slurm_script" in word for word in each.argv))[:1]
        if victim == "shell":
            agents = {each.pid for each in of_run if _is_agent(each)}
            return [each.pid for each in of_run if worlds.parent(each.pid) in agents and not _is_agent(each)][:1]
        raise ValueError(victim)

    def _agents(self, of_run: Sequence[Process], node_rank: int) -> list[int]:
        """Those of a node, parents first: the keeper, its agent, and what that has forked and is about to be another
        program."""
        there = []
        for each in of_run:
            own = worlds.environment(each.pid).get("SLURM_NODEID", "0")
            if _is_agent(each) and own == str(node_rank):
                there.append(each.pid)
        return sorted(there, key=lambda pid: (worlds.parent(pid) in there, pid))

    def _host(self, stage: Stage, place: int) -> str:
        hosts = self.cluster.command("squeue", "--noheader", "--jobs", self._native(stage, stage.run), "--format=%N")
        names = self.cluster.command("scontrol", "show", "hostnames", hosts.strip()).split()
        return names[min(place, len(names) - 1)]

    def _stepd(self, stage: Stage, step: str, place: int) -> list[int]:
        """slurmstepd cuts its own title short."""
        first = self.cluster.power(self._host(stage, 0 if step == "batch" else place))
        title = "slurmstepd: [%s.%s]" % (self._native(stage, stage.run), step)
        there = [each for each in living_in(first.space) if each.name == "slurmstepd"] if first else []
        return [each.pid for each in there if each.argv and title.startswith(each.argv[0])][:1]

    # What is not a signal to a process of the run

    def disturb(self, stage: Stage, strike: Strike) -> Disturbance | None:
        cluster = self.cluster
        if strike.how == "removed":
            worlds.remove(stage.cli.path(stage.run))
            return Disturbance(lambda: None)
        if strike.how == "filled":
            filler = worlds.fill(self.disk)
            return Disturbance(lambda: os.unlink(filler))
        if strike.how == "scancel":
            cluster.command("scancel", self._native(stage, stage.run))
            return Disturbance(lambda: None)
        if strike.victim == "slurmctld":
            return self._strike_controller(_number(strike))
        if strike.victim not in ("slurmd", "power", "network"):
            return None
        node = self._host(stage, strike.place)
        if strike.victim == "slurmd":
            cluster.kill_slurmd(node, _number(strike))
            return Disturbance(lambda: (time.sleep(A_WHILE), cluster.restart_slurmd(node)), at_once=True)
        if strike.how == "off":
            cluster.power_off(node)
            return Disturbance(lambda: cluster.power_on(node, 0))
        cluster.cut_network(node)
        return Disturbance(lambda: cluster.restore_network(node), at_once=strike.how == "blink")

    def _strike_controller(self, number: int) -> Disturbance:
        """One that is killed forgets what it has not saved, whole jobs too: the job is to be among what it has."""
        if number == signal.SIGKILL:
            now, saved = time.time(), self.cluster.local("state", "job_state")
            wait_for(lambda: os.stat(saved).st_mtime > now, SAVED_WITHIN, raises=False)
        self.cluster.stop_controller(number)
        return Disturbance(lambda: (time.sleep(A_WHILE), self.cluster.start_controller()), at_once=True)

    def left(self, stage: Stage, run: str) -> list[str]:
        return [" ".join(each.argv) for each in worlds.of_run(run)]

    def held(self, stage: Stage, run: str) -> list[str]:
        job = self._native(stage, run)

        def released() -> bool:
            asked = ["squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job]
            return set(self.cluster.command(*asked, check=False).split()) <= OVER

        return [] if wait_for(released, RELEASED_WITHIN, raises=False) else ["job %s" % job]


def _number(strike: Strike) -> int:
    return signal.SIGSTOP if strike.how == "PAUSE" else signal.Signals["SIG" + strike.how]


def _is_agent(process: Process) -> bool:
    return process.name.startswith("python") and any(word.endswith("agent.pyz") for word in process.argv)


@contextmanager
def slurm_world() -> Iterator[SlurmWorld]:
    """The file system is mounted first, so that the nodes' own view of the machine holds it."""
    os.makedirs(HOME, 0o755, exist_ok=True)
    disk = os.path.join(tempfile.mkdtemp(prefix="chaos-", dir=HOME), "disk")
    os.chmod(os.path.dirname(disk), 0o755)
    try:
        with worlds.small_disk(disk), Cluster.start(Flavour()) as cluster:
            yield SlurmWorld(cluster, disk)
    finally:
        os.rmdir(os.path.dirname(disk))
