"""The cluster that the Slurm benchmarks run on, and how they learn when jobs begin, ranks speak and ranks die.

The cluster is the one of the tests: four nodes made of namespaces, a real Slurm. All its processes share this machine's
cores, and this machine's clock.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness import CHECKOUT, Bench, run

sys.path.insert(1, os.path.join(CHECKOUT, "tests"))

from slurm import machine
from slurm.cluster import DEFAULT, Cluster, Flavour

PROGRAMS = os.path.join(CHECKOUT, "benchmarks", "programs")
PATIENCE = 60.0
_STAMP = """\
unset BASH_ENV
echo "job $EPOCHREALTIME" >"$BENCH_NOTES"
"""
_CONFIG = """\
default_compute = "bed"
[compute.bed]
type = "slurm"
"""
LATER = '[compute.bed.sbatch_options]\nbegin = "now+1hour"\n'
"""Configuration of jobs that only wait."""


class Notes:
    """A named pipe into which jobs and ranks write lines, `WORD SECONDS`. Who holds it open is alive."""

    def __init__(self, path: str) -> None:
        os.mkfifo(path)
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._text = b""

    def clear(self) -> None:
        self._read()
        self._text = b""

    def moments(self, word: str) -> list[float]:
        """Unix seconds of each line that begins so, in the order of their arrival."""
        lines = [line.split() for line in self._text.decode().splitlines()]
        return [float(line[1]) for line in lines if line[0] == word]

    def wait(self, word: str, count: int, patience: float = PATIENCE) -> list[float]:
        """The moments, once there are `count`. RuntimeError when that takes too long."""
        deadline = time.monotonic() + patience
        while len(found := self.moments(word)) < count:
            if time.monotonic() > deadline:
                raise RuntimeError("%d of %d notes %r after %g s" % (len(found), count, word, patience))
            if not self._read():
                time.sleep(0.002)
        return found

    def wait_released(self, patience: float) -> float | None:
        """The moment when nobody holds the pipe any more; None when somebody still does after `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            events = dict(self._poll.poll(max(0.0, deadline - time.monotonic()) * 1e3)).get(self._file, 0)
            now = time.time()
            if events & select.POLLIN:
                self._read()
            elif events & select.POLLHUP:
                return now
            elif time.monotonic() > deadline:
                return None

    def _read(self) -> bool:
        """Takes what there is, waiting a moment for it while somebody holds the pipe; False when nobody does."""
        if not self._poll.poll(50):
            return True
        try:
            data = os.read(self._file, 1 << 16)
        except BlockingIOError:
            return True
        self._text += data
        return bool(data)


class Bed:
    """A running cluster with a user's directory on it."""

    def __init__(self, bench: Bench, cluster: Cluster) -> None:
        self.cluster = cluster
        self.worldsize = bench.worldsize
        bench.home = os.path.join(cluster.shared, "home")
        self.notes = Notes(os.path.join(cluster.shared, "notes"))
        stamp = self.write("stamp.sh", _STAMP)
        ours = bench.environ(LC_ALL="C.UTF-8")
        clean = cluster.environ
        kept = {name: value for name, value in ours.items() if name in clean or name not in os.environ}
        self.environ = {**kept, "SLURM_CONF": clean["SLURM_CONF"]}
        self.stamped = {**self.environ, "BASH_ENV": stamp, "BENCH_NOTES": self.notes.path}

    def write(self, name: str, text: str) -> str:
        """A file in the shared directory; its path."""
        path = os.path.join(self.cluster.shared, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def project(self, name: str, files: Mapping[str, str], config: str = "") -> str:
        """A user's directory on the shared file system, whose runs go to this cluster."""
        for file, text in {"worldsize.toml": _CONFIG + config, **files}.items():
            self.write(os.path.join(name, file), text)
        return os.path.join(self.cluster.shared, name)

    def run(self, *argv: str, cwd: str, environ: Mapping[str, str] | None = None, output: str = os.devnull) -> float:
        return run(argv, environ or self.environ, cwd, output)

    def answer(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=True)
        return done.stdout

    def wait_calm(self, patience: float = PATIENCE) -> float:
        """The moment when no job waits, runs or completes. RuntimeError when that takes too long."""
        deadline = time.monotonic() + patience
        while self.answer("squeue", "--noheader", "--format=%A"):
            if time.monotonic() > deadline:
                raise RuntimeError("jobs did not end within %g s" % patience)
            time.sleep(0.02)
        return time.time()

    def left_over(self) -> int:
        """How many processes of jobs are on the nodes."""
        return sum(len(self.cluster.processes(node)) for node in self.cluster.node_names)

    def cancel_all(self) -> None:
        self.cluster.cancel_everything()
        self.wait_calm()


@contextmanager
def open_bed(bench: Bench, flavour: Flavour = DEFAULT) -> Iterator[Bed]:
    with Cluster.start(flavour) as cluster:
        try:
            yield Bed(bench, cluster)
        finally:  # thousands of files, which would keep the cluster's end waiting
            shutil.rmtree(cluster.shared, ignore_errors=True)


def missing() -> list[str]:
    """What stands in the way of a cluster here, in words."""
    return list(machine.missing())
