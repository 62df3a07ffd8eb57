"""Runs a program of the corpus by the command line, and sees whether it hangs, or ends, as the table says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from driver import SOURCE, Cli, wait_for

from hangs.cases import PROGRAMS, HangCase
from hangs.healthy import HealthyCase

ROOT = os.path.dirname(SOURCE)
MPI_PYTHON = os.path.join(ROOT, ".venv-mpi", "bin", "python")
STARTS_WITHIN = 90.0
SETTLES_WITHIN = 20.0


class Verdict(NamedTuple):
    """What was seen of a case. `wrong` is empty where it did as the table says."""

    case: str
    state: str
    seconds: float
    wrong: tuple[str, ...]


def lacks(needs: str) -> str:
    """What this machine lacks of what a case needs."""
    if needs == "mpi" and not os.path.exists(MPI_PYTHON):
        return "no .venv-mpi: make setup"
    if needs == "fuse" and not (os.geteuid() == 0 and os.access("/dev/fuse", os.W_OK)):
        return "no root, or no /dev/fuse"
    return ""


class Running:
    """A case that runs. Its marks are the files that its ranks leave."""

    def __init__(self, root: str, world: str, needs: str, program: str, arguments: Sequence[str]) -> None:
        self.cli = Cli(root)
        self.marks = os.path.join(root, "marks")
        os.mkdir(self.marks)
        python = MPI_PYTHON if needs == "mpi" else sys.executable
        words = ["--env", "HANG_MARKS=" + self.marks, "--env", "PYTHONPATH=.", "-w", world]
        words += ["--set", "grace=1", "--no-check"]
        command = [python, program, *arguments]
        if needs == "mpi":
            nodes, _, each = world.partition("x")
            job = {
                "command": " ".join(command),
                "code": str(PROGRAMS),
                "distribution": {"type": "mpi", "process_count_per_instance": int(each)},
                "resources": {"instance_count": int(nodes)},
            }
            words.append(self.cli.write("job.yml", json.dumps(job)))
        else:
            words += ["--code", str(PROGRAMS), "--", *command]
        self.client = self.cli.start("run", "-q", *words)
        self.run = ""

    def find_run(self) -> str:
        if not self.run and os.path.isdir(os.path.join(self.cli.home, "runs")):
            self.run = self.cli.latest()
        return self.run

    def pid(self, mark: str, rank: int) -> int:
        """Of the process that left the mark; 0 where none has."""
        with suppress(FileNotFoundError), open(os.path.join(self.marks, "%s-%d" % (mark, rank))) as file:
            return int(file.read())
        return 0

    def state(self) -> str:
        """As `worldsize status` has it in its first line."""
        return self.cli.ok("status", self.find_run()).lines[0].split()[1].rstrip(",:")

    def logs(self) -> dict[str, int]:
        """The ranks' logs and their sizes."""
        folder = self.cli.path(self.run, "attempt-0", "logs")
        return {name: os.path.getsize(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}

    def said(self) -> str:
        """What the client has said, once it has ended, and the end of each log."""
        out, err = self.client.communicate()
        folder = Path(self.cli.path(self.run, "attempt-0", "logs")) if self.run else Path(os.devnull)
        logs = [each.read_text(errors="replace")[-600:] for each in sorted(folder.glob("*"))]
        return "\n".join([out.decode(errors="replace"), err.decode(errors="replace"), *logs])

    def end(self) -> None:
        """So that nothing is left."""
        if self.client.poll() is None:
            if self.find_run():
                self.cli("cancel", self.run)
            else:
                self.client.terminate()
            try:
                self.client.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self.client.kill()
                self.client.communicate()
        self.cli.close()


@contextmanager
def running(world: str, needs: str, program: str, arguments: Sequence[str]) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="hangs-") as root:
        started = Running(root, world, needs, program, arguments)
        try:
            yield started
        finally:
            started.end()


def watch(case: HangCase, seconds: float, look: str = "") -> Verdict:
    """Starts a case, waits until it says that it hangs, and sees for so many seconds that nothing happens any more.

    look  the path of py-spy, by which each place is held against the table
    """
    began = time.monotonic()
    with running(case.world, case.needs, case.program, case.arguments) as run:
        marked = sorted(case.ranks) or list(range(case.ranks_in_all))

        def hangs() -> bool:
            return run.client.poll() is not None or all(run.pid("hangs", rank) for rank in marked)

        wrong: list[str] = []
        if not wait_for(hangs, STARTS_WITHIN, raises=False):
            wrong.append("it does not come to the place where it hangs")
        wait_for(run.find_run, SETTLES_WITHIN, raises=False)
        time.sleep(1)
        if not wrong and run.client.poll() is None:
            wrong += _moves(run, case, seconds, look)
        if run.client.poll() is not None:
            wrong.append("it has ended: %s" % run.said())
        else:
            state = run.state()
            if state != "RUNNING":
                wrong.append("it is %s" % state)
            run.cli("cancel", run.run)
            run.client.wait(60)
        state = run.state()
        if not wrong and state != "CANCELLED":
            wrong.append("cancelled, it is %s" % state)
    return Verdict(case.id, state, round(time.monotonic() - began, 1), tuple(wrong))


def _moves(run: Running, case: HangCase, seconds: float, look: str) -> list[str]:
    """What is not as it is when all remaining ranks wait."""
    before = run.logs()
    wrong = _places(run, case, look) if look else []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and run.client.poll() is None:
        time.sleep(0.2)
    if run.client.poll() is not None:
        return wrong
    for rank in case.ranks:
        gone = not os.path.exists("/proc/%d" % run.pid("hangs", rank))
        if gone != case.ended:
            wrong.append("the process of rank %d %s" % (rank, "has ended" if gone else "has not ended"))
    if run.logs() != before:
        wrong.append("a log has grown: %s, then %s" % (before, run.logs()))
    if look and not wrong:
        wrong += ["later: %s" % words for words in _places(run, case, look)]
    return wrong


def stacks(look: str, pid: int) -> list[list[str]]:
    """FILE:LINE of each frame of each thread of a process, innermost first, by py-spy."""
    for _ in range(5):
        done = subprocess.run([look, "dump", "--json", "--nonblocking", "--pid", str(pid)], capture_output=True)
        with suppress(ValueError):
            threads: list[dict[str, Any]] = json.loads(done.stdout)
            return [["%s:%d" % (each["filename"], each["line"]) for each in thread["frames"]] for thread in threads]
        time.sleep(0.2)
    return [[done.stderr.decode(errors="replace").strip()]]


def _places(run: Running, case: HangCase, look: str) -> list[str]:
    """Every process that is not where the table has it."""
    wrong = []

    def expect(whose: str, pid: int, *markers: str) -> None:
        places = [place for place in map(case.at, markers) if place is not None]
        if not places:
            return
        deadline = time.monotonic() + 5
        while True:
            found = stacks(look, pid)
            if any(frame.endswith("/" + place) for stack in found for frame in stack for place in places):
                return
            if time.monotonic() > deadline:
                wrong.append("%s is not at %s but at %s" % (whose, " or ".join(places), found))
                return
            time.sleep(0.3)

    for rank in range(case.ranks_in_all):
        if not case.ranks:
            expect("rank %d" % rank, run.pid("rank", rank), "here", "others")
        elif rank not in case.ranks:
            waits = "others" if case.others else "here"
            expect("rank %d" % rank, run.pid("rank", rank), waits, "partner", "server")
        elif not case.ended:
            expect("rank %d" % rank, run.pid("hangs", rank), "here")
            expect("the thread of rank %d" % rank, run.pid("hangs", rank), "thread")
            expect("the caller of rank %d" % rank, run.pid("hangs", rank), "caller")
            expect("the parent in rank %d" % rank, run.pid("rank", rank), "parent")
            for child in _children(run.pid("rank", rank)):
                expect("the child of rank %d" % rank, child, "child")
    return wrong


def _children(pid: int) -> list[int]:
    found = []
    for task in Path("/proc/%d/task" % pid).glob("*/children"):
        found += [int(word) for word in task.read_text().split()]
    return found


def finish(case: HealthyCase, limit: float, patience: float = 300) -> Verdict:
    """Runs a healthy case to its end, which has to be a success."""
    began = time.monotonic()
    wrong = []
    with running(case.world, case.needs, case.program, (*case.arguments, "--limit", str(limit))) as run:
        try:
            code = run.client.wait(patience)
        except subprocess.TimeoutExpired:
            wrong.append("it has not ended within %g s" % patience)
        else:
            run.find_run()
            if code != 0:
                wrong.append("it ended with %d: %s" % (code, run.said()))
        state = run.state()
        if not wrong and state != "SUCCEEDED":
            wrong.append("it is %s" % state)
    return Verdict(case.id, state, round(time.monotonic() - began, 1), tuple(wrong))
