"""Ranks of a program of the corpus that begin at once: forks of one process that has imported torch.

They have the variables and the hook of a rank of `worldsize run`, and no agent. This file is also the program of that
one process: `python -m hangs.forked_ranks`, with a request in JSON a line on its standard input.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

from hangs.cases import PROGRAMS

IMPORTS = "numpy torch torch.distributed torch.nn.parallel torch.utils.data torch.distributed.nn.functional"


class Mother:
    """The process that is forked."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hangs.forked_ranks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class ForkedRun:
    """A program that runs. `roots`: by rank, its process; `stacks`: where the hook in the ranks opens its files."""

    def __init__(self, mother: Mother, world: str, program: str, arguments: tuple[str, ...]) -> None:
        self._mother = mother
        self.root = tempfile.mkdtemp(prefix="hangs-")
        self.marks, self.stacks = os.path.join(self.root, "marks"), os.path.join(self.root, "stacks")
        for name in ("marks", "stacks", "errors", "work"):
            os.mkdir(os.path.join(self.root, name))
        nodes, each = (int(word) for word in world.split("x"))
        self.roots: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        port = _free_port()
        for rank in range(nodes * each):
            place = {
                "RANK": rank,
                "LOCAL_RANK": rank % each,
                "WORLD_SIZE": nodes * each,
                "LOCAL_WORLD_SIZE": each,
                "NODE_RANK": rank // each,
                "GROUP_RANK": rank // each,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "WORLDSIZE_RANK": rank,
                "HANG_MARKS": self.marks,
                "WORLDSIZE_ERROR_FILE": os.path.join(self.root, "errors", "rank-%05d.json" % rank),
            }
            self.roots[rank] = mother.ask(
                program=str(PROGRAMS / program),
                arguments=arguments,
                environment={name: str(value) for name, value in place.items()},
                folder=os.path.join(self.root, "work"),
                log=self.log(rank),
            )

    def log(self, rank: int) -> str:
        return os.path.join(self.root, "rank-%d.log" % rank)

    def poll(self) -> dict[int, int]:
        """The exit codes of the ranks that have ended."""
        ended = {int(pid): code for pid, code in self._mother.ask(poll=True).items()}
        self.codes.update({rank: ended[pid] for rank, pid in self.roots.items() if pid in ended})
        return self.codes

    def mark(self, name: str, rank: int) -> int:
        with suppress(FileNotFoundError):
            return int(Path(self.marks, "%s-%d" % (name, rank)).read_text())
        return 0

    def said(self) -> str:
        return "\n".join(Path(self.log(rank)).read_text(errors="replace")[-600:] for rank in self.roots)

    def end(self) -> None:
        """So that nothing is left: each rank has a session of its own."""
        for _ in range(3):
            for pid in _of_sessions(set(self.roots.values())):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        self.poll()
        shutil.rmtree(self.root, ignore_errors=True)


def _of_sessions(sessions: set[int]) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if int(Path("/proc", name, "stat").read_text().rpartition(") ")[2].split()[3]) in sessions:
                    found.append(int(name))
    return found


def _free_port() -> int:
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, suppress(OSError):
            port: int = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


def _serve() -> dict[str, Any]:
    """Fork for each request; in the fork, return it."""
    codes: dict[int, int] = {}
    living: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = 0
        if "program" in request:
            answer = os.fork()
            if not answer:
                return dict(request)
            living.add(answer)
        else:
            for pid in list(living):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    living.remove(pid)
                    codes[pid] = os.waitstatus_to_exitcode(status)
            answer = codes
        os.write(_ANSWERS, (json.dumps(answer) + "\n").encode())
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _become_rank(request: dict[str, Any]) -> str:
    """Take over what a process of its own would have got; returns the program."""
    os.setsid()
    os.environ.update(request["environment"], WORLDSIZE_RANK_PYTHON="%d " % os.getpid())
    os.chdir(request["folder"])
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(_ANSWERS)
    sys.stdin = sys.__stdin__ = open(0)  # type: ignore[misc]  # which keeps it open when a program has another
    program = str(request["program"])
    sys.argv = [program, *request["arguments"]]
    sys.path.insert(0, str(PROGRAMS))
    from worldsize.wings.hangs import inrank

    inrank.at_start()
    inrank.start_recorder()
    return program


if __name__ == "__main__":
    _ANSWERS = os.dup(1)
    os.set_inheritable(_ANSWERS, False)
    for name in IMPORTS.split():
        __import__(name)
    _program = _become_rank(_serve())
    _main = types.ModuleType("__main__")
    _main.__file__ = _program
    sys.modules["__main__"] = _main
    exec(compile(Path(_program).read_text(), _program, "exec", dont_inherit=True), vars(_main))
