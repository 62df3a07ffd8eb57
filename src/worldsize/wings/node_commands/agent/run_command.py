"""The program that executes a command on nodes of a run, next to its ranks, for `exec` and `shell`.

It travels as one text that uses only the standard library, and contains the modules of worldsize that it imports. For a
run may have been started by another release, and an allocation of its own has no run directory. Its input is an order
in JSON from the compute, and it reports events in lines:

    ws1 NODE up HOST | ws1 NODE out DATA | ws1 NODE err DATA | ws1 NODE end CODE          HOST and DATA in base64

    WORLDSIZE_ORDER=… PROGRAM            on its standard output; its standard input is the lifeline
    PROGRAM DIRECTORY NODE [PARENT]      in files of a directory that holds order.json, and the lifeline `lease`

Such a directory also contains the program, as visit.py (`NODE_PROGRAM_FILE` of `plan.run_paths`).

Each line is shorter than the 1,024 bytes that srun forwards as a whole. The lifeline contains `stop` when the command
should end, and it is closed when the client ends. In both cases the commands get TERM, their grace period, and KILL.
`now` on the lifeline, or TERM to this program, sends KILL at once.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.termination import Termination
from worldsize.wings.node_commands.agent.node_environment import node_environment, shell_argv
from worldsize.wings.node_commands.agent.transports import (
    OUTPUT_LIMIT,
    SHORT_TICK,
    STOP,
    TICK,
    FileTransport,
    PipeTransport,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple, Union

MARK = "ws1"
ORDER = "WORLDSIZE_ORDER"
ELSEWHERE = "WORLDSIZE_ELSEWHERE"
"""The variable that is set if another user could have created the order's directory on this node. The command is then
executed in the home directory."""

PIECE = 600
_DRAIN = 0.2
_EXCESS = f"worldsize: it has printed {OUTPUT_LIMIT >> 20} MiB on this node: the rest is not shown\n".encode()
_STOPPED = 128 + signal.SIGTERM


class CommandProcess:
    """The process of the command on one node. `room` is the number of bytes of its output that may still be
    forwarded."""

    def __init__(self, node: int, process: subprocess.Popen[bytes], room: int) -> None:
        self.node = node
        self.process = process
        self.room = room
        self.open: Set[int] = set()
        self.drain_until: Optional[float] = None

    def signal(self, number: int) -> None:
        """Send the signal `number` to the whole process group of the command, if it still exists. A stopped group is
        continued, so that TERM reaches it."""
        for each in (number, signal.SIGCONT):
            try:
                os.killpg(self.process.pid, each)
            except (ProcessLookupError, PermissionError):
                return


def start_process(order: Mapping[str, Any], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the user's command of the order on this node, or with `python` in the order, the Python that executes this
    program, with the command as its arguments. Return the process. The command is found as by a shell: by its own PATH,
    and from its own directory. Raise OSError if it cannot be started."""
    return subprocess.Popen(
        [sys.executable, *order["argv"]] if order.get("python") else order["argv"],
        cwd=_directory(order),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def start_failure(error: OSError, name: str, environment: Mapping[str, str]) -> Tuple[str, int]:
    """Return the message of a shell about a command `name` that could not be started, and its exit code. A directory in
    PATH that may not be searched raises PermissionError, too, which is no information about the command."""
    from shutil import which

    is_on_path = os.sep in name or which(name, os.F_OK, environment.get("PATH", os.defpath))
    if error.filename == name and not is_on_path:
        return f"worldsize: {name}: command not found\n", 127
    code = 126 if isinstance(error, (PermissionError, NotADirectoryError)) else 127
    return f"worldsize: {error.filename or name}: {error.strerror}\n", code


def _directory(order: Mapping[str, Any]) -> str:
    """Return the working directory of the user's command on this node. The directory of a run must exist. On nodes
    without a run, the home directory replaces a directory that only the login node has."""
    if order["plan"] is not None or os.path.isdir(order["cwd"]):
        return str(order["cwd"])
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else os.sep


def line_of(node: int, kind: str, value: object) -> bytes:
    text = b2a_base64(value, newline=False) if isinstance(value, bytes) else str(value).encode()
    return b"%s %d %s %s\n" % (MARK.encode(), node, kind.encode(), text)


class NodeCommandRun:
    """The execution of the user's command for each of `nodes` on this machine, with reports to the client until all
    have ended. `code` is the highest exit code."""

    def __init__(
        self,
        order: Mapping[str, Any],
        nodes: List[int],
        line: Union[PipeTransport, FileTransport],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._order = order
        self._line = line
        self._selector = selectors.DefaultSelector()
        self._end = Termination()
        self._children: List[CommandProcess] = []
        self.code = 0
        signal.signal(signal.SIGTERM, lambda *_: self._stop(0.0))
        signal.signal(signal.SIGINT, lambda *_: self._stop(order["grace"]))  # from a scheduler that cancels the job
        for node in nodes:
            self._start(node)

    def run(self) -> None:
        while self._children:
            for key in self._readable_keys():
                self._pass_on(key.fd, *key.data)
            wanted = self._line.poll()
            if wanted:
                self._stop(self._order["grace"] if wanted == STOP else 0.0)
            due = self._end.signal_due(self._clock())
            if due is not None:
                for child in self._children:
                    child.signal(due)
            self._children = [child for child in self._children if not self._finish_if_ended(child)]
        self._line.close()

    def _report(self, node: int, kind: str, value: object) -> None:
        self._line.send(line_of(node, kind, value))

    def _start(self, node: int) -> None:
        self._report(node, "up", socket.gethostname().encode())
        environment = node_environment(self._order, node, os.environ)
        try:
            process = start_process(self._order, environment)
        except OSError as error:
            text, code = start_failure(error, self._order["argv"][0], environment)
            self._report(node, "err", text.encode(errors="replace"))
            self._report_end(node, code)
            return
        child = CommandProcess(node, process, self._line.output_limit)
        for kind, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            child.open.add(pipe.fileno())
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, (child, kind))
        self._children.append(child)

    def _readable_keys(self) -> List[selectors.SelectorKey]:
        """Wait up to 0.1 s for output of the commands on this machine, and return the pipes that have some. Nothing is
        read while the transport has no room for more output."""
        if not self._line.has_room:
            time.sleep(TICK)
            return []
        timeout = TICK if all(child.open for child in self._children) else SHORT_TICK
        return [key for key, _ in self._selector.select(timeout)]

    def _stop(self, grace: float) -> None:
        self._end.request(self._clock(), grace)

    def _pass_on(self, pipe: int, child: CommandProcess, kind: str) -> bool:
        """Forward the output that is available in a pipe of the command `child` to the client. Return whether there was
        any. `kind` is "out" or "err"."""
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(pipe)
            child.open.remove(pipe)
        told = data[: max(0, child.room)]
        for start in range(0, len(told), PIECE):
            self._report(child.node, kind, told[start : start + PIECE])
        if 0 <= child.room < len(data):
            self._report(child.node, "err", _EXCESS)
        child.room -= len(data)
        return bool(data)

    def _finish_if_ended(self, child: CommandProcess) -> bool:
        """Report the exit code of the user's command `child` to the client if the command has ended, and return whether
        it has. Processes that it left in its group, which may hold its pipes open, are killed a moment later."""
        code = child.process.poll()
        if code is None:
            return False
        now = self._clock()
        if child.open and (child.drain_until is None or now < child.drain_until):
            child.drain_until = child.drain_until or now + _DRAIN
            return False
        child.signal(signal.SIGKILL)
        for pipe in list(child.open):
            while self._pass_on(pipe, *self._selector.get_key(pipe).data):
                pass
            if pipe in child.open:
                self._selector.unregister(pipe)
        self._report_end(child.node, code if code >= 0 else 128 - code)
        return True

    def _report_end(self, node: int, code: int) -> None:
        self.code = max(self.code, code)
        self._line.send(line_of(node, "end", code))


def main(words: Sequence[str]) -> int:
    """Execute the order of `worldsize exec` or `worldsize shell` on this node, and return this program's exit code. If
    files carry the output, it is the command's exit code, which the process that started this program may read; else it
    is 0. Without `argv` in the order, this process becomes an interactive shell."""
    order, line = _order(words)
    order = with_plan(order)
    nodes = order["nodes"]
    if order["variable"] is not None:
        name = os.environ[order["variable"]]
        nodes = [order["ranks"][name] if order["ranks"] else int(name)]
    if not order["argv"]:
        become_shell(order, nodes[0])
    if isinstance(line, FileTransport) and not line.wait():
        line.send(line_of(nodes[0], "up", socket.gethostname().encode()) + line_of(nodes[0], "end", _STOPPED))
        line.close()
        return _STOPPED
    command = NodeCommandRun(order, nodes, line)
    command.run()
    return command.code if isinstance(line, FileTransport) else 0


def with_plan(order: Dict[str, Any]) -> Dict[str, Any]:
    """Return the order for this program with the run's plan in place of the path of the plan's file. Set the umask of
    this process to that of the ranks. Raise OSError."""
    if order["plan"] is None:
        return order
    with open(order["plan"], encoding="utf-8") as file:
        plan = json.load(file)
    mask = plan.get("ranks_umask")
    os.umask(plan["umask"] if mask is None else mask)
    return {**order, "plan": plan}


def _order(words: Sequence[str]) -> Tuple[Dict[str, Any], Union[PipeTransport, FileTransport]]:
    if not words:
        order = json.loads(os.environ.pop(ORDER))
        if os.environ.pop(ELSEWHERE, ""):
            order["cwd"] = os.path.expanduser("~")
        return order, PipeTransport()
    directory, node = words[0], int(words[1])
    with open(os.path.join(directory, "order.json"), encoding="utf-8") as file:
        order = json.load(file)
    parent = int(words[2]) if len(words) > 2 else None
    return {**order, "nodes": [node]}, FileTransport(directory, node, order["lease"], parent)


def become_shell(order: Mapping[str, Any], node: int) -> NoReturn:
    """Replace this process by an interactive shell with the environment of a rank of the node, on the same terminal.
    Raise OSError if the shell cannot be started."""
    environment = node_environment(order, node, os.environ)
    os.chdir(_directory(order))
    argv = shell_argv(environment)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and a shell would inherit that
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(argv[0], argv, environment)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as problem:
        sys.exit(f"worldsize: {problem.filename}: {problem.strerror}")
