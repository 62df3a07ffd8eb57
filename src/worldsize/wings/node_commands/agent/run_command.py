"""A command on nodes of a run, beside its ranks: `exec` and `shell`.

It travels as one text of the standard library alone, with what it imports of worldsize in it: a run may have been
started by another release, and an allocation of its own has no run directory. What it is to do is an order of the
compute that sends it, in JSON; what happens is told in lines:

    ws1 NODE up HOST | ws1 NODE out DATA | ws1 NODE err DATA | ws1 NODE end CODE          HOST and DATA in base64

    WORLDSIZE_ORDER=… PROGRAM            on its standard output; its standard input is the lifeline
    PROGRAM DIRECTORY NODE [PARENT]      in files of a directory that holds order.json, and the lifeline `lease`

The program lies in such a directory too, as visit.py (`NODE_PROGRAM_FILE` of `plan.run_paths`).

Each line is shorter than the 1,024 bytes that srun passes on whole. The lifeline brings `stop` when the end is wanted,
and ends with whoever asked: the commands get TERM, their grace, KILL. `now` there, or TERM to us, is KILL at once.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple, Union

MARK = "ws1"
ORDER = "WORLDSIZE_ORDER"
ELSEWHERE = "WORLDSIZE_ELSEWHERE"
"""Set where somebody else could have made the directory of the order on this node: the home stands in for it."""

HELPER_OF = "WORLDSIZE_HELPER_OF"
"""As `worldsize.agent.posix.processes` has it, which this program, a single file, cannot import: an agent that has
started us tells by it what we leave from what ranks leave."""

OUTPUT_LIMIT = 256 << 20
"""Bytes that a command may print on one node where files carry them. What follows is dropped, which is told."""

UNREADABLE = 1 / 12
"""What a second counts as silence in which a file was there and could not be read."""

PIECE = 600
STOP = "stop"
NOW = "now"
_DRAIN = 0.2
_TICK = 0.1
_SHORT_TICK = 0.01
_LEASE_TICK = 0.5
_FLUSH_TICK = 0.05
_HELD = 1 << 20
_EXCESS = f"worldsize: it has printed {OUTPUT_LIMIT >> 20} MiB on this node: what follows is not shown\n".encode()
_MASK = "***"
"""What stands for a secret in plan.json: ranks have it, and so has a command beside one."""
_STOPPED = 128 + signal.SIGTERM
_AT_SECURE = 23


def living_rank_environment(run_id: str, node: int) -> dict[str, str] | None:
    """The environment of a living rank of the run on this machine, of that node if possible, or else of what started
    them; None where nothing of it lives. Anybody may start a process with the run's id: only this user's count."""
    mark = b"WORLDSIZE_RUN_ID=%s" % run_id.encode()
    found, best = None, (False, False, -2)
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0") if _is_ours(pid) else []
        except OSError:
            continue
        if mark in entries and not _gained_privileges(pid):
            environ = _parse_environment(entries)
            likeness = _likeness(environ, node)
            if likeness > best:
                found, best = environ, likeness
    return found


def _is_ours(pid: int) -> bool:
    """The same check as `worldsize.trust.owners.is_own_process`, which this program, a single file, cannot import."""
    with open(f"/proc/{pid}/status", "rb") as file:
        ids = next((line.split()[1:] for line in file if line.startswith(b"Uid:")), [])
    return ids == [b"%d" % os.geteuid()] * 4


def _gained_privileges(pid: int) -> bool:
    """Whether the process runs a program with a set-user-ID bit: its environment was chosen by whoever started it.
    Linux says so in the process's auxiliary vector (AT_SECURE, getauxval(3))."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            entries = dict(struct.iter_unpack("@LL", file.read()))
    except (OSError, struct.error):
        return True
    return bool(entries.get(_AT_SECURE, 1))


def _likeness(environ: Mapping[str, str], node: int) -> tuple[bool, bool, int]:
    """How much a process is like a rank of the node. Those that a batch script's own srun has started know Slurm's
    variables alone, and have a step, which the script has not, or an earlier one."""
    step = environ.get("SLURM_STEP_ID", "")
    ours = environ.get("WORLDSIZE_NODE_RANK") == str(node)
    return "WORLDSIZE_RANK" in environ, ours, int(step) if step.isdigit() else -1


def node_environment(order: Mapping[str, Any], node: int, own: Mapping[str, str]) -> dict[str, str]:
    """What a rank of this node has, without what makes it a rank; `own` where no rank lives to be asked.

    Without a run: `own`.
    """
    plan = order["plan"]
    if plan is None:
        return {**own, **order["set"], "WORLDSIZE_NODE_RANK": str(node)}
    ranks = living_rank_environment(plan["run_id"], node)
    environment = _without_rank_variables(ranks or own, order["scrub"], plan.get("kept", ()))
    if ranks is None:
        environment["PATH"] = os.pathsep.join((*plan["path"], environment.get("PATH", os.defpath)))
    path = [each for each in environment.pop("PYTHONPATH", "").split(os.pathsep) if each not in ("", order["hook"])]
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(path)
    if plan["visible_devices"]:  # each rank has its own; here it is all of the node's
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if "CUDA_VISIBLE_DEVICES" in own:
            environment["CUDA_VISIBLE_DEVICES"] = own["CUDA_VISIBLE_DEVICES"]
    set_by_job = {
        name: value for name, value in plan["environment"].items() if not plan.get("hidden") or _MASK not in value
    }
    helper = {HELPER_OF: own[HELPER_OF]} if HELPER_OF in own else {}
    return {**environment, **set_by_job, **order["set"], **helper, "WORLDSIZE_NODE_RANK": str(node)}


def shell_argv(environment: Mapping[str, str]) -> list[str]:
    """No login shell: its start-up files would put another PATH in place of the ranks'."""
    names = ("bash", "sh")
    return [next((name for name in names if _is_on_path(name, environment)), names[-1]), "-i"]


def _is_on_path(name: str, environment: Mapping[str, str]) -> bool:
    return any(os.access(os.path.join(each, name), os.X_OK) for each in os.get_exec_path(dict(environment)))


def _without_rank_variables(
    environ: Mapping[str, str], scrub: Mapping[str, Any], kept: Sequence[str]
) -> dict[str, str]:
    prefixes, names, kept = tuple(scrub["prefixes"]), frozenset(scrub["names"]), (*scrub["kept"], *kept)
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not (name in names or name.startswith(prefixes))
    }


def _parse_environment(entries: List[bytes]) -> Dict[str, str]:
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


class CommandProcess:
    """The command as it runs on one node. If it could not be started, `failed` is the reason. `room`: how many bytes of
    its output may still be told."""

    def __init__(self, node: int, order: Mapping[str, Any]) -> None:
        self.node = node
        self.open: Set[int] = set()
        self.room = sys.maxsize
        self.drain_until: Optional[float] = None
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.code = 127
        self.failed = ""
        environment = node_environment(order, node, os.environ)
        try:
            directory = _directory(order)
            self.process = subprocess.Popen(
                order["argv"],
                cwd=directory,
                env=environment,
                executable=_program(order["argv"][0], environment, directory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.code = 126 if isinstance(error, (PermissionError, NotADirectoryError)) else 127
            self.failed = "worldsize: {}: {}\n".format(error.filename or order["argv"][0], error.strerror)

    def signal(self, number: int) -> None:
        """To its whole group; a stopped one is continued, so that TERM is heard."""
        for each in (number, signal.SIGCONT):
            try:
                os.killpg(self.process.pid, each) if self.process else None
            except (ProcessLookupError, PermissionError):
                return


def _directory(order: Mapping[str, Any]) -> str:
    """Of a run it must be there; for nodes of our own the home stands in for what only the login node has."""
    if order["plan"] is not None or os.path.isdir(order["cwd"]):
        return str(order["cwd"])
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else os.sep


def _program(name: str, environment: Mapping[str, str], directory: str) -> str:
    """As a shell finds it, by the command's own PATH and from its own directory."""
    if os.sep in name:
        return os.path.join(directory, name)
    for each in os.get_exec_path(dict(environment)):
        path = os.path.join(directory, each, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(2, "command not found", name)


class PipeTransport:
    """Standard output carries what is told, and standard input is the lifeline."""

    has_room = True
    output_limit = sys.maxsize

    def __init__(self) -> None:
        self._has_ended = False

    def send(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(1, line) :]
        except OSError:
            pass  # nobody listens: the lifeline says so too

    def poll(self) -> str:
        """What was asked for since the last call: "" (nothing), "stop", also by the lifeline's end, or "now"."""
        if self._has_ended:
            return ""
        try:
            if not select.select([0], [], [], 0)[0]:
                return ""
            words = os.read(0, 4096)
        except OSError:
            words = b""
        self._has_ended = not words
        return NOW if NOW.encode() in words else STOP

    def close(self) -> None:
        pass


class Silence:
    """The time, in seconds, in which nothing new was seen. Of that between two looks one second counts at most, so that
    neither a slow file server nor a machine that slept makes anybody look dead."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._looked_at: Optional[float] = None

    def look(self, now: float, is_new: bool, weight: float = 1.0) -> None:
        """Note a look at `now` (monotonic), and whether it showed anything new. `weight`: what a second without news
        counts; less where nothing could be looked at."""
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, 1.0)
        self.seconds = 0.0 if is_new else self.seconds + weight * passed
        self._looked_at = now


def silence_weight(error: OSError) -> float:
    """What a second of this error counts as silence: a file server that fails for a while makes nobody look dead."""
    return 1.0 if isinstance(error, FileNotFoundError) else UNREADABLE


class FileTransport:
    """Files of a directory that whoever asked sees too, where nothing else connects the two.

    What is told is appended to one file, opened anew for each portion, since it is closing that sends it to a file
    server.

    The lifeline is the content of `lease`, which whoever asked changes every second. It has to be read: the time of a
    file's last change may be cached for long. `stop N` or `now N` stands there when the end is wanted. Each change is
    answered by an empty line, a sign of life; none for `patience` seconds is a stop.
    """

    output_limit = OUTPUT_LIMIT

    def __init__(
        self,
        directory: str,
        node: int,
        patience: float,
        parent: Optional[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._directory = directory
        self._file = os.path.join(directory, node_file_name(node))
        self._patience = patience
        self._parent = parent
        self._held = bytearray()
        self._silence = Silence()
        self._lease = ""
        self._is_awaited = False
        self._look_at = self._flush_at = 0.0

    def send(self, line: bytes) -> None:
        self._held += line

    @property
    def has_room(self) -> bool:
        """Whether more may be told. What a full disk does not take is kept in memory, up to a limit."""
        return len(self._held) < _HELD

    def wait(self) -> bool:
        """Wait until it is known whether the command is wanted, and return that. It is once the lease has changed: the
        client may have ended long ago."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has to be ended yet
        while not self._is_awaited and not self.poll():
            time.sleep(_TICK)
            self._look_at = 0.0
        return not self.poll()

    def poll(self) -> str:
        """Write what was told, and return what is wanted: "" (nothing else), "stop", or "now"."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + _LEASE_TICK
            self._read_lease(now)
        if now >= self._flush_at:
            self._flush_at = now + _FLUSH_TICK
            self._flush()
        if self._parent is not None and os.getppid() != self._parent:
            return NOW
        word = self._lease.partition(" ")[0]
        return word if word in (STOP, NOW) else STOP if self.is_abandoned else ""

    @property
    def is_abandoned(self) -> bool:
        return self._silence.seconds > self._patience

    def close(self) -> None:
        """Write what is left, as long as somebody waits for it. Remove the directory where nobody is left who would."""
        self._flush()
        while self._held and not self.is_abandoned:
            time.sleep(_SHORT_TICK)
            self.poll()
        if self.is_abandoned:
            remove_directory(self._directory)

    def _read_lease(self, now: float) -> None:
        try:
            with open(os.path.join(self._directory, "lease"), encoding="latin-1") as file:
                lease = file.read().strip()
        except OSError as error:
            self._silence.look(now, False, silence_weight(error))
            return
        is_new = lease != self._lease
        self._silence.look(now, is_new)
        if is_new:
            self._is_awaited = self._lease != ""
            self._lease = lease
            self._held += b"\n"

    def _flush(self) -> None:
        """Append to the file what was told. What cannot be written is kept, and tried again."""
        if not self._held:
            return
        try:
            with open(self._file, "r+b", buffering=0) as file:
                file.seek(0, os.SEEK_END)
                while self._held:
                    del self._held[: file.write(self._held)]
        except OSError:
            pass


def node_file_name(node: int) -> str:
    return f"node-{node:04d}"


def remove_directory(directory: str) -> None:
    """Remove the directory, or those of its files that can be removed. It is tried three times: another node may remove
    it too, or still write."""
    for _ in range(3):
        try:
            for name in os.listdir(directory):
                _try_unlink(os.path.join(directory, name))
            return os.rmdir(directory)
        except OSError:
            continue


def _try_unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def line_of(node: int, kind: str, value: object) -> bytes:
    text = b2a_base64(value, newline=False) if isinstance(value, bytes) else str(value).encode()
    return b"%s %d %s %s\n" % (MARK.encode(), node, kind.encode(), text)


class NodeCommandRun:
    """Runs the command for each of `nodes` on this machine and tells of it until all have ended; `code` is the highest
    of theirs."""

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
        signal.signal(signal.SIGINT, lambda *_: self._stop(order["grace"]))  # from a scheduler that cancels
        for node in nodes:
            self._start(node)

    def run(self) -> None:
        while self._children:
            for key in self._readable_keys():
                self._pass_on(key.fd, *key.data)
            wanted = self._line.poll()
            if wanted:
                self._stop(self._order["grace"] if wanted == STOP else 0.0)
            self._signal_children()
            self._children = [child for child in self._children if not self._finish_if_ended(child)]
        self._line.close()

    def _report(self, node: int, kind: str, value: object) -> None:
        self._line.send(line_of(node, kind, value))

    def _start(self, node: int) -> None:
        self._report(node, "up", socket.gethostname().encode())
        child = CommandProcess(node, self._order)
        child.room = self._line.output_limit
        if child.process is None:
            self._report(node, "err", child.failed.encode(errors="replace"))
            self._report_end(node, child.code)
            return
        for kind, pipe in (("out", child.process.stdout), ("err", child.process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            child.open.add(pipe.fileno())
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, (child, kind))
        self._children.append(child)

    def _readable_keys(self) -> List[selectors.SelectorKey]:
        """What can be read; nothing as long as nobody takes what was read before."""
        if self._line.has_room:
            return [key for key, _ in self._selector.select(self._select_timeout())]
        time.sleep(_TICK)
        return []

    def _select_timeout(self) -> float:
        return _TICK if all(child.open for child in self._children) else _SHORT_TICK

    def _stop(self, grace: float) -> None:
        self._end.request(self._clock(), grace)

    def _signal_children(self) -> None:
        due = self._end.signal_due(self._clock())
        if due is not None:
            for child in self._children:
                child.signal(due)

    def _pass_on(self, pipe: int, child: CommandProcess, kind: str) -> bool:
        """Whether there was something to pass on."""
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
        """Whether it has ended. What it left behind in its group, with a pipe of ours, is ended a moment later."""
        assert child.process is not None
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
    """The program; its exit code, which is the command's where files tell of it: whoever started us may look at that.
    With no `argv` in the order it becomes an interactive shell."""
    order, line = _order(words)
    if order["plan"] is not None:
        with open(order["plan"], encoding="utf-8") as file:
            order = {**order, "plan": json.load(file)}
        os.umask(_umask(order["plan"]))
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


def _umask(plan: Mapping[str, Any]) -> int:
    """The ranks'."""
    mask: Optional[int] = plan.get("ranks_umask")
    return int(plan["umask"]) if mask is None else mask


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
    """This process becomes the shell, with the terminal that it has. Raises OSError."""
    environment = node_environment(order, node, os.environ)
    os.chdir(_directory(order))
    argv = shell_argv(environment)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a shell would pass on so
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(argv[0], argv, environment)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as problem:
        sys.exit(f"worldsize: {problem.filename}: {problem.strerror}")
