"""The jobs of a batch scheduler in the manner of PBS: one queue, N nodes that are this machine, first in, first out.

There is no server: each job has a process that waits for its turn, starts the job's script and records its end. A job
ends with its script. Settings are variables: TOY_SPOOL (where jobs are kept), TOY_NODES (number of nodes), TOY_KEEP
(seconds for which jobs that have ended are known), TOY_KILL_DELAY (seconds from TERM to KILL), TOY_TROUBLE (each Nth
request gets no answer).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

KEPT_VARIABLES = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What a job's script sees of the submitting shell; there is no option such as qsub's -V."""


class Spool:
    """The jobs: a file for each, and a file that the job's process keeps locked while it lives."""

    def __init__(self) -> None:
        self.root = os.environ.get("TOY_SPOOL") or os.path.expanduser("~/.toy-scheduler")
        self.nodes = ["node%d" % (node + 1) for node in range(setting("TOY_NODES", 4))]
        os.makedirs(self.root, 0o700, exist_ok=True)

    def path(self, number: int, ending: str) -> str:
        return os.path.join(self.root, "%d.%s" % (number, ending))

    @contextmanager
    def jobs(self) -> Iterator[dict[int, dict[str, Any]]]:
        """Yield all jobs by number, for one process at a time. What is changed in them is kept."""
        with open(os.path.join(self.root, "lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            jobs = self._read()
            before = {number: json.dumps(job) for number, job in jobs.items()}
            yield jobs
            for number, job in jobs.items():
                if json.dumps(job) != before.get(number):
                    self._write(number, job)

    def _read(self) -> dict[int, dict[str, Any]]:
        jobs = {}
        for number in sorted(int(name[:-5]) for name in os.listdir(self.root) if name.endswith(".json")):
            with open(self.path(number, "json")) as file:
                job = json.load(file)
            if job["state"] != "E" and not self._lives(number):
                job.update(state="E", code=137, why="its process was killed", ended=time.time())
                self._write(number, job)
            if job["state"] == "E" and job["ended"] + setting("TOY_KEEP", 300) < time.time():
                for ending in ("json", "sh", "alive"):
                    os.unlink(self.path(number, ending))
            else:
                jobs[number] = job
        return jobs

    def _write(self, number: int, job: Mapping[str, Any]) -> None:
        with open(self.path(number, "part"), "w") as file:
            json.dump(job, file)
        os.replace(self.path(number, "part"), self.path(number, "json"))

    def _lives(self, number: int) -> bool:
        with open(self.path(number, "alive")) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def new_number(self) -> int:
        with open(os.path.join(self.root, "last"), "a+") as file:
            file.seek(0)
            number = int(file.read() or 0) + 1
            file.truncate(0)
            file.write(str(number))
        return number

    def answer(self) -> int:
        """Count a request. Return 0 if it is answered; otherwise how many had no answer, with this one."""
        every = setting("TOY_TROUBLE", 0)
        if not every:
            return 0
        with open(os.path.join(self.root, "requests"), "ab") as file:
            file.write(b".")
            file.flush()
            asked = file.tell()
        return 0 if asked % every else asked // every


def setting(name: str, otherwise: int) -> int:
    return int(os.environ.get(name) or otherwise)
