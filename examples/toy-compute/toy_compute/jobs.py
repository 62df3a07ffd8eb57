"""The toy's scheduler: a directory for each job, and a process that starts the job's nodes and notes their end.

python -m toy_compute.jobs DIRECTORY
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.agent.posix.processes import start_time
from worldsize.common.atomic_files import read_json, write_json


class JobState(NamedTuple):
    """`code`: the worst exit code of its nodes, once all have ended; None before, and for a job that was killed."""

    pid: int
    living: bool
    code: int | None


class Jobs:
    """They are kept in `TOY_JOBS`, or in `~/.toy-jobs`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._directory = environ.get("TOY_JOBS") or os.path.join(environ["HOME"], ".toy-jobs")

    def start(self, run_id: str, lines: Sequence[Sequence[str]], environ: Mapping[str, str]) -> int:
        """The number of a new job, whose nodes execute the lines."""
        os.makedirs(self._directory, 0o700, exist_ok=True)
        number, directory = self._make_directory()
        write_json(os.path.join(directory, "job.json"), {"run_id": run_id, "lines": [list(line) for line in lines]})
        with open(os.path.join(directory, "log"), "wb") as log:
            words = [sys.executable, "-m", "toy_compute.jobs", directory]
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environ), start_new_session=True
            )
        process.returncode = 0  # it outlives us: nobody here waits for it
        write_json(os.path.join(directory, "process.json"), [process.pid, start_time(process.pid)])
        return number

    def _make_directory(self) -> tuple[int, str]:
        number = max([int(name) for name in os.listdir(self._directory)], default=0) + 1
        while True:
            directory = os.path.join(self._directory, str(number))
            try:
                os.mkdir(directory, 0o700)
                return number, directory
            except FileExistsError:
                number += 1

    def find(self, number: int, run_id: str) -> JobState | None:
        """None where there is no such job of this run."""
        directory = os.path.join(self._directory, str(int(number)))
        job, process = (read_json(os.path.join(directory, name)) for name in ("job.json", "process.json"))
        if job is None or process is None or job["run_id"] != run_id:
            return None
        pid, started = process
        return JobState(pid, _lives(pid, started), read_json(os.path.join(directory, "code.json")))

    def stop(self, number: int, run_id: str, now: bool) -> None:
        """The agents hear TERM as a wish to end with grace, and QUIT as one to end at once."""
        self._signal(number, run_id, signal.SIGQUIT if now else signal.SIGTERM)

    def kill(self, number: int, run_id: str) -> int:
        """How many processes that were."""
        return self._signal(number, run_id, signal.SIGKILL)

    def _signal(self, number: int, run_id: str, which: signal.Signals) -> int:
        job = self.find(number, run_id)
        if job is None or not job.living:
            return 0
        try:
            os.killpg(job.pid, which)
        except ProcessLookupError:
            return 0
        return 1


def _lives(pid: int, started: int | None) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)  # of ours, one that has ended would stay for ever
    except ChildProcessError:
        pass
    return started is not None and start_time(pid) == started


def main(directory: str) -> None:
    """The job itself: its nodes are in its process group, which is told to end; the job waits until they have."""
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    with open(os.path.join(directory, "job.json")) as file:
        lines = json.load(file)["lines"]
    nodes = [subprocess.Popen(line) for line in lines]
    codes = [node.wait() for node in nodes]
    write_json(os.path.join(directory, "code.json"), max(128 - code if code < 0 else code for code in codes))


if __name__ == "__main__":
    main(sys.argv[1])
