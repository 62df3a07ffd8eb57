"""The program of one node of a run of `type: ray`. It starts Ray on the node, and ends it with the run.

    `python -I -S -c … AGENT ORDER [WORD …]`     the words are the command, on the head alone

On the head it starts the command once all nodes have joined, and ends with the command's exit code. Ray's processes are
its children, in a session of their own. TERM, which all processes of a rank get, reaches the command first, and Ray
ends after the command has ended. Ray's files on the node's disk are removed at the end. The next run removes the files
of a run that was killed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from worldsize.agent.posix.processes import end_with_parent, signal_process, trees
from worldsize.common.atomic_files import read_tail, write_json
from worldsize.common.named_tuple import Any, NoReturn
from worldsize.wings.frameworks.agent.ray_directory import RayDirectory

_AWAITED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_STOP_CODE = 128 + signal.SIGTERM
_PAUSE, _PATIENCE, _END_PATIENCE, _CONNECT = 0.1, 5.0, 2.0, 1.0
_TAIL, _LINES, _LINE = 20_000, 15, 300
_TOKENS_SINCE = (2, 52)

_VERSION = """
try:
    from importlib.metadata import version
    print(version("ray"))
except Exception:
    pass
"""
_COUNT = """
import sys, time
import ray
ray.init(address="auto", log_to_driver=False, logging_level="error")
found = 0
while found < int(sys.argv[1]):
    found = sum(bool(node["Alive"]) for node in ray.nodes())
    print(found, flush=True)
    if found < int(sys.argv[1]):
        time.sleep(0.1)
"""
"""Program that queries the head for the number of nodes that have joined, until all have."""


class RayError(Exception):
    """The error for a Ray that cannot be started on the node, or has ended by itself. The text is one sentence."""


class _Stopped(Exception):
    """The exception for a signal from the agent to end this program."""


def main() -> NoReturn:
    """Run Ray on this node as the order file states, and on the head the run's command. Exit with the command's code,
    with 1 after a RayError, with 143 if the agent has ended this program by a signal."""
    with open(sys.argv[2], encoding="utf-8") as file:
        order = json.load(file)
    node = RayNode(order, sys.argv[3:])
    try:
        code = node.run()
    except _Stopped:
        code = _STOP_CODE
    except RayError as error:
        sys.stderr.write(f"worldsize: {error}\n")
        report = {"type": "RayError", "message": str(error), "frames": [], "time": time.time()}
        write_json(order["errors"], report)
        code = 1
    finally:
        node.close()
    sys.stderr.flush()
    os._exit(code)


class RayNode:
    """The processes of Ray on this node, and on the head the command."""

    def __init__(self, order: Any, command: Sequence[str]) -> None:
        self._order = order
        self._command = command
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        self._deadline = time.monotonic() + order["wait"]
        self._directory = RayDirectory()
        self._log: str = order["log"]
        self._ray: subprocess.Popen[bytes] | None = None
        unset = set(order["unset"])
        self._environment = {name: value for name, value in os.environ.items() if name not in unset}
        self._environment.update(order["set"])

    def run(self) -> int:
        """Start Ray on this node, and on the head the run's command, after all nodes have joined. Return the command's
        exit code, 128+N for signal N; on other nodes never return. Raise RayError; raise _Stopped if TERM or INT
        arrives before the command starts."""
        self._require_ray()
        self._await_token()
        if not self._command:
            self._await_head()
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--temp-dir={self._directory.path}"]
        self._ray = self._start([*words, *self._order["start"]], self._environment, self._log, apart=True)
        if not self._command:
            self._wait(lambda: False, None)
        self._await_head()
        self._await_nodes()
        return self._run_command()

    def close(self) -> None:
        """Stop Ray on this node, and remove its files from the disk."""
        if self._ray is not None:
            self._end(self._ray)
        self._directory.remove()

    def _require_ray(self) -> None:
        asked = subprocess.run(
            [sys.executable, "-c", _VERSION], env=self._environment, stdout=subprocess.PIPE, preexec_fn=self._unblock
        )
        version = asked.stdout.decode("utf-8", "replace").strip()
        if not version:
            raise RayError(
                f"the Python of this run, {sys.executable}, has no package ray"
                " (pip install 'ray[default]' in the job's environment)"
            )
        numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        if tuple(numbers) < _TOKENS_SINCE:
            sys.stderr.write(
                f"worldsize: Ray {version} has no tokens (2.52 does): every user who reaches it can use it\n"
            )
            sys.stderr.flush()

    def _await_token(self) -> None:
        self._wait(lambda: os.path.exists(self._order["token"]), "the head has not written the cluster's token")

    def _await_head(self) -> None:
        self._wait(self._is_head_reached, "Ray's head does not listen at {head}:{port}".format(**self._order))

    def _is_head_reached(self) -> bool:
        try:
            socket.create_connection((self._order["head"], self._order["port"]), _CONNECT).close()
        except OSError:
            return False
        return True

    def _await_nodes(self) -> None:
        """Wait until all nodes have joined the Ray cluster, according to its head. Raise RayError at the timeout, or if
        the head does not answer."""
        nodes, counted = self._order["nodes"], os.path.join(self._directory.path, "joined")
        environment = {**self._environment, "RAY_ADDRESS": "{head}:{port}".format(**self._order)}
        count = [sys.executable, "-c", _COUNT, str(nodes)]
        with open(counted, "wb") as answers:
            asking = self._start(count, environment, self._log, out=answers.fileno())
        try:
            self._wait(lambda: asking.poll() is not None, lambda: _joined_text(counted, nodes))
        finally:
            self._end(asking)
        if asking.returncode:
            raise RayError(f"Ray's head does not list its nodes: {self._last_line()}")

    def _run_command(self) -> int:
        """Run the run's command on the head of the Ray cluster, and return its exit code. TERM reaches it directly,
        like all processes of this session. Raise RayError if Ray ends before the command."""
        command = self._start(self._command, dict(os.environ), None)
        assert self._ray is not None
        while command.poll() is None:
            if self._ray.poll() is not None:
                self._end(command)
                self._raise_ended()
            signal.sigtimedwait(_AWAITED, _PATIENCE)
        return exit_code_of(command.returncode)

    def _wait(self, is_done: Callable[[], bool], late: str | Callable[[], str] | None) -> None:
        """Wait until `is_done()` is true. `late` is the message for a timeout; with None there is no timeout. Raise
        RayError with that message after the deadline, or if Ray ends before. Raise _Stopped at TERM or INT."""
        while not is_done():
            if self._ray is not None and self._ray.poll() is not None:
                self._raise_ended()
            if late is not None and time.monotonic() > self._deadline:
                what = late if isinstance(late, str) else late()
                raise RayError("{} within {:g} s".format(what, self._order["wait"]))
            found = signal.sigtimedwait(_AWAITED, _PAUSE if late is not None else _PATIENCE)
            if found is not None and found.si_signo != signal.SIGCHLD:
                raise _Stopped

    def _raise_ended(self) -> NoReturn:
        """Raise RayError because Ray has ended on this node, and write the last lines of its log to the rank's log. If
        the head is gone as well, the error states that as the cause."""
        assert self._ray is not None
        lines = read_tail(self._log, _TAIL).decode("utf-8", "replace").splitlines()[-_LINES:]
        sys.stderr.write("".join(f"{line}\n" for line in ["worldsize: the end of Ray's log:", *lines]))
        what = f"Ray has ended on this node (code {exit_code_of(self._ray.returncode)})"
        if not self._command and not self._is_head_reached():
            what += ", its head has ended: remote process exited"
        said = self._directory.last_line()
        raise RayError(f"{what}: {said}" if said else what)

    def _last_line(self) -> str:
        text = read_tail(self._log, _TAIL).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_LINE] if lines else "it is empty"

    def _start(
        self, words: Sequence[str], environment: dict[str, str], log: str | None, apart: bool = False, out: int = -1
    ) -> subprocess.Popen[bytes]:
        """Start the program `words`, whose output goes to the file `log`. With `apart`, start it in a session of its
        own, and end it with this process. Raise RayError."""
        file = open(log, "ab") if log is not None else None
        try:
            return subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out if out >= 0 else file,
                stderr=file,
                start_new_session=apart,
                preexec_fn=self._unblock_and_follow if apart else self._unblock,
            )
        except OSError as error:
            raise RayError(f"{words[0]}: {error.strerror}") from None
        finally:
            if file is not None:
                file.close()

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def _unblock_and_follow(self) -> None:
        self._unblock()
        end_with_parent(signal.SIGTERM)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Stop `process` with TERM, and after some seconds kill it and all its descendants. Ray itself would wait up to
        30 s for the work of its workers."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_PATIENCE)
            except subprocess.TimeoutExpired:
                for pid in trees([process.pid]):
                    signal_process(pid, signal.SIGKILL)
                process.wait()


def exit_code_of(returncode: int) -> int:
    """Return the exit code for the return code of a process that `subprocess` has started: 128+N for signal N, else
    unchanged."""
    return 128 - returncode if returncode < 0 else returncode


def _joined_text(counted: str, nodes: int) -> str:
    words = read_tail(counted, 100).split()
    found = words[-1].decode("ascii", "replace") if words else "0"
    return f"{found} of {nodes} nodes have joined Ray's cluster"
