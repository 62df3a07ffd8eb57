"""The programs tsub, tstat and tdel of the toy scheduler, which stand for qsub, qstat and qdel."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from toy_scheduler.spool import KEPT_VARIABLES, Spool

NO_ANSWER, ENDED, UNKNOWN = 111, 35, 153
"""Exit codes: the server does not answer, the job has ended already, the job is not known."""


def _no_answer() -> int:
    print("cannot connect to server toy", file=sys.stderr)
    return NO_ANSWER


def _number(job: str) -> int:
    return int(job) if job.isascii() and job.isdigit() else -1


def tsub() -> int:
    """Submit the script on standard input, whose lines `#TSUB` have further options, and print the id of its job."""
    parser = argparse.ArgumentParser("tsub")
    parser.add_argument("--name", default="STDIN")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--time", type=int, default=0)
    parser.add_argument("--output", default=os.devnull)
    parser.add_argument("--after", action="append", default=[])
    parser.add_argument("--after-any", action="append", default=[])
    script = sys.stdin.read()
    lines = [shlex.split(line[1:])[1:] for line in script.splitlines() if line.startswith("#TSUB ")]
    given = parser.parse_args([word for line in lines for word in line] + sys.argv[1:])
    spool = Spool()
    if given.nodes > len(spool.nodes):
        return _refuse("%d nodes are asked for, and there are %d" % (given.nodes, len(spool.nodes)))
    trouble = spool.answer()
    if trouble % 2:
        return _no_answer()
    with spool.jobs() as jobs:
        awaited = [_number(job) for job in (*given.after, *given.after_any)]
        for number in awaited:
            if number not in jobs:
                return _refuse("Unknown Job Id %d" % number)
        number = spool.new_number()
        jobs[number] = {
            "name": given.name,
            "nodes": given.nodes,
            "time": given.time,
            "output": given.output,
            "after": awaited[: len(given.after)],
            "after_any": awaited[len(given.after) :],
            "state": "Q",
            "comment": "",
            "hosts": [],
            "code": None,
            "why": "",
            "started": None,
            "signal": 0,
        }
        with open(spool.path(number, "sh"), "w") as file:
            file.write(script)
        _start_process(spool, number)
    if trouble:
        return _no_answer()  # the job exists, and only the answer was lost
    print(number)
    return 0


def _refuse(what: str) -> int:
    print(what, file=sys.stderr)
    return 1


def _start_process(spool: Spool, number: int) -> None:
    kept = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or name.startswith("TOY_")}
    kept["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(spool.path(number, "alive"), "w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        subprocess.Popen(
            [sys.executable, "-m", "toy_scheduler.job", str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=kept,
            cwd="/",
            pass_fds=[alive.fileno()],
            start_new_session=True,
        )


def tstat() -> int:
    """Print the jobs, or the nodes, as JSON. The code is UNKNOWN if one of the jobs that are named is not known."""
    parser = argparse.ArgumentParser("tstat")
    parser.add_argument("--name")
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("jobs", nargs="*", metavar="JOB")
    given = parser.parse_args()
    spool = Spool()
    if spool.answer():
        return _no_answer()
    with spool.jobs() as jobs:
        busy = {host for job in jobs.values() if job["state"] == "R" for host in job["hosts"]}
    if given.nodes:
        size = {"cpus": os.cpu_count(), "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20}
        told = {node: {"state": "busy" if node in busy else "free", **size} for node in spool.nodes}
        print(json.dumps({"nodes": told}))
        return 0
    wanted = [_number(job) for job in given.jobs] or list(jobs)
    found = [number for number in wanted if number in jobs and given.name in (None, jobs[number]["name"])]
    print(json.dumps({"jobs": {str(number): jobs[number] for number in found}}))
    return 0 if set(wanted) <= set(jobs) else UNKNOWN


def tdel() -> int:
    """End a job: a queued one at once, a running one by TERM, and by KILL after the delay. With `--signal`, send its
    processes only that signal. The code is ENDED if it has ended already, UNKNOWN if it is not known."""
    parser = argparse.ArgumentParser("tdel")
    parser.add_argument("--signal", metavar="NAME")
    parser.add_argument("job", metavar="JOB")
    given = parser.parse_args()
    spool = Spool()
    if spool.answer():
        return _no_answer()
    with spool.jobs() as jobs:
        job = jobs.get(_number(given.job))
        if job is None:
            print("Unknown Job Id %s" % given.job, file=sys.stderr)
            return UNKNOWN
        if job["state"] == "E":
            print("Job has finished %s" % given.job, file=sys.stderr)
            return ENDED
        if job["state"] == "Q":
            job.update(state="E", code=143, why="deleted", ended=time.time())
        elif given.signal:
            job["signal"] = int(signal.Signals["SIG" + given.signal])
        else:
            job["why"] = "deleted"
    return 0
