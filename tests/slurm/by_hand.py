"""What users do on a cluster beside worldsize: allocations, scripts, jobs and mounts of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from driver import wait_for

from slurm.login import PATIENCE, Login


class Shell:
    """A shell inside `salloc`, told line by line what to do; it lives as long as its allocation."""

    def __init__(self, login: Login, *options: str) -> None:
        self.login = login
        argv = ["salloc", "--quiet", *options, "bash", "--norc"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env=login.environ, cwd=login.project, text=True
        )
        self.job = self("echo $SLURM_JOB_ID").strip()

    def __call__(self, line: str) -> str:
        """What the line prints, with the standard error."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("{ %s; } 2>&1; echo; echo =END=\n" % line)
        self._process.stdin.flush()
        lines = []
        while not lines or lines[-1] != "=END=\n":
            lines.append(self._process.stdout.readline())
            assert lines[-1], "the shell is gone: %s" % lines
        return "".join(lines[:-1]).removesuffix("\n")

    def worldsize(self, words: str) -> str:
        return self("%s -m worldsize %s" % (sys.executable, words))

    def close(self) -> None:
        self._process.communicate("exit\n", timeout=20)


def run_of(login: Login, name: str) -> str:
    """The id of the run that was given this name."""
    wait_for(lambda: any(row["name"] == name for row in login.json("list")))
    return next(row["id"] for row in login.json("list") if row["name"] == name)


def script(login: Login, *words: str) -> str:
    """The file that the dry run's output is in; nothing has been created."""
    before = login.runs()
    result = login.ok("run", "--dry-run", *words)
    assert login.runs() == before and result.out.startswith("#!/bin/bash\n#SBATCH --job-name=")
    return login.write("job.sh", result.out)


def submit(login: Login, path: str) -> str:
    """The id of the run of a script that sbatch was given; it is known once it has started."""
    job = login.cluster.command("sbatch", "--parsable", "--output=" + path + ".%j.out", path).strip()
    wait_for(lambda: any(run.endswith("-" + job) for run in login.runs()), PATIENCE)
    (run,) = (run for run in login.runs() if run.endswith("-" + job))
    wait_for(lambda: login.left(run, "../plan.json"), PATIENCE)
    return run


def fill(login: Login, *options: str) -> str:
    """A job that holds all nodes."""
    words = ["sbatch", "--parsable", "-N4", "--exclusive", *options, "--wrap", "exec srun sleep 600"]
    job = login.cluster.command(*words, cwd=login.project).strip()
    wait_for(lambda: login.state(job) == "RUNNING")
    return job


@contextmanager
def mounted(login: Login, node: str, path: str, *words: str) -> Iterator[None]:
    """Something else lies over `path` on a node for a while."""
    subprocess.check_call(login.cluster.on_node(node, ["mount", *words, path]))
    try:
        yield
    finally:
        subprocess.check_call(login.cluster.on_node(node, ["umount", "--lazy", path]))
