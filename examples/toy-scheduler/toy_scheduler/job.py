"""The process of a job of the toy scheduler, and tdsh, which stands for pbsdsh inside a job.

python -m toy_scheduler.job NUMBER
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from toy_scheduler.spool import KEPT_VARIABLES, Spool, setting

_POLL = 0.05


def run_job(number: int) -> None:
    """Wait for the turn of a job, execute its script, and record its end."""
    spool = Spool()
    while True:
        with spool.jobs() as jobs:
            if number not in jobs or jobs[number]["state"] == "E":
                return
            _start_next(spool, jobs)
            job = jobs[number]
            if job["state"] == "R":
                break
        time.sleep(_POLL)
    code = _run_script(spool, number, job)
    with spool.jobs() as jobs:
        jobs[number].update(state="E", code=code, ended=time.time())


def _start_next(spool: Spool, jobs: dict[int, dict[str, Any]]) -> None:
    """Give nodes to the first job that waits for nothing else, if enough are free; nobody overtakes it."""
    busy = {host for job in jobs.values() if job["state"] == "R" for host in job["hosts"]}
    for job in [job for job in jobs.values() if job["state"] == "Q"]:
        parents = {number: jobs[number] for number in (*job["after"], *job["after_any"]) if number in jobs}
        if any(parent["state"] == "E" and parent["code"] for n, parent in parents.items() if n in job["after"]):
            job.update(state="E", code=1, why="dependency", ended=time.time())
        elif any(parent["state"] != "E" for parent in parents.values()):
            job["comment"] = "waits for the end of other jobs"
        else:
            free = [node for node in spool.nodes if node not in busy]
            if len(free) >= job["nodes"]:
                job.update(state="R", hosts=free[: job["nodes"]], started=time.time(), comment="")
            else:
                job["comment"] = "waits for %d nodes, of which %d are free" % (job["nodes"], len(free))
            return


def _run_script(spool: Spool, number: int, job: Mapping[str, Any]) -> int:
    environ = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
    environ.update(TOY_JOBID=str(number), TOY_HOSTS=" ".join(job["hosts"]))
    try:
        output = open(job["output"], "ab")
    except OSError:
        return 1
    words = ["bash", spool.path(number, "sh")]
    with output:
        script = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ, start_new_session=True
        )
    deadline = time.time() + (job["time"] or float("inf"))
    kill_at = float("inf")
    while True:
        try:
            code = script.wait(_POLL)
            break
        except subprocess.TimeoutExpired:
            pass
        with spool.jobs() as jobs:
            now = jobs[number]
            if time.time() > deadline and not now["why"]:
                now["why"] = "time"
            wanted, now["signal"] = now["signal"], 0
            ending = now["why"]
        if wanted:
            _signal(script.pid, wanted)
        if ending and kill_at == float("inf"):
            _signal(script.pid, signal.SIGTERM)
            kill_at = time.time() + setting("TOY_KILL_DELAY", 30)
        if time.time() > kill_at:
            _signal(script.pid, signal.SIGKILL)
    _signal(script.pid, signal.SIGKILL)  # what the script has left behind
    return 128 - code if code < 0 else code


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def tdsh() -> int:
    """Execute a command once on each node of the job, with the node's number in TOY_NODE, and return the highest code.
    The signals that end a job are for the commands: this program waits for them."""
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    hosts = os.environ["TOY_HOSTS"].split()
    environs = [{**os.environ, "TOY_NODE": str(node), "TOY_HOST": host} for node, host in enumerate(hosts)]
    codes = [each.wait() for each in [subprocess.Popen(sys.argv[1:], env=environ) for environ in environs]]
    return max(128 - code if code < 0 else code for code in codes)


if __name__ == "__main__":
    run_job(int(sys.argv[1]))
