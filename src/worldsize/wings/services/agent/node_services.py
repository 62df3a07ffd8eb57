"""Services of a job next to its first rank: TensorBoard and JupyterLab, which listen on the node's own loopback.

TensorBoard does not authenticate its users, and JupyterLab executes their code. Therefore neither listens on an address
that other machines can reach, and JupyterLab requires a token, which is in the run directory. A service never fails a
run.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping

from worldsize.agent.control.ports import PortReservation
from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_tail, write_bytes
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import LOOPBACK
from worldsize.plan.run_paths import RunPaths

_TRY_EVERY, _CONNECT = 0.25, 0.2
_TAIL, _LINE = 20_000, 200
_LOG_DIR = "outputs"
_OF_A_RANK = ("WORLDSIZE_ERROR_FILE", "TORCHELASTIC_ERROR_FILE", "WORLDSIZE_RANK", "RANK", "LOCAL_RANK")
_TOKEN = "JUPYTER_TOKEN"


class _Kind(NamedTuple):
    """A kind of service: its title, the module that Python executes, and the package to install if the module is
    missing."""

    title: str
    module: str
    package: str


KINDS = {
    "tensor_board": _Kind("TensorBoard", "tensorboard.main", "tensorboard"),
    "jupyter_lab": _Kind("JupyterLab", "jupyterlab", "jupyterlab"),
}


class _Pending(NamedTuple):
    name: str
    kind: _Kind
    pid: int
    port: int
    log: str
    token: str
    reservation: object


class Services:
    """The services of a run, on its first node. An error at the start of a service becomes a notice."""

    def __init__(
        self, plan: Plan, paths: RunPaths, environment: Mapping[str, str], local: bool, tell: Callable[[str], None]
    ) -> None:
        """Start the services of the plan (TensorBoard, JupyterLab). `environment` contains the variables of a rank,
        `local` is true if the notices are read on this machine, and `tell` is called with each notice."""
        self._plan, self._paths, self._local, self._tell = plan, paths, local, tell
        self._environment = {name: value for name, value in environment.items() if name not in _OF_A_RANK}
        self._pending: list[_Pending] = []
        self._pids: list[int] = []
        self._held: list[object] = []
        self._next = 0.0
        for number, (name, service) in enumerate(plan.services.items()):
            if service.get("type") in KINDS:
                self._start(number, name, service)

    def deadline(self) -> float | None:
        """Return the time of the next check whether the services listen on their ports; None once all listen or have
        ended."""
        return self._next if self._pending else None

    def tick(self, now: float) -> None:
        """Check the services if the time of the next check has come, and send a notice about each one that has begun to
        listen since the last check, or has ended instead."""
        if now < self._next:
            return
        self._next = now + _TRY_EVERY
        waiting = []
        for each in self._pending:
            if processes.start_time(each.pid) is None:
                self._tell(self._end_text(each))
            elif _listens(each.port):
                self._tell(self._address_text(each))
            else:
                waiting.append(each)
        self._pending = waiting

    def finish(self) -> None:
        """Kill the processes of all services of the run."""
        self._pending = []
        for pid in self._pids:
            if processes.is_helper(pid):
                processes.signal_group(pid, signal.SIGKILL)

    def _start(self, number: int, name: str, service: Mapping[str, Any]) -> None:
        kind = KINDS[service["type"]]
        log = self._paths.launcher_log(number, service["type"])
        try:
            reservation = None if service.get("port") else PortReservation()
            port = int(service.get("port") or reservation.port)  # type: ignore[union-attr]
            environment, token = self._environment, ""
            if service["type"] == "jupyter_lab":
                token = os.path.join(self._paths.launch_dir, f"jupyter-{number}-token")
                os.makedirs(self._paths.launch_dir, 0o700, exist_ok=True)
                secret = os.urandom(24).hex()
                write_bytes(token, secret.encode(), private=True)
                environment = {**environment, _TOKEN: secret}
            argv = service_argv(self._plan.python, service, port, self._paths.code)
            pid = processes.spawn_helper(processes.find_program(argv[0], environment), argv, environment, log)
        except Exception as error:  # noqa: BLE001  # no program, no port, a full disk: the run continues
            self._tell(f"{kind.title} (services.{name}) cannot be started: {error}")
            return
        self._pids.append(pid)
        self._held.append(reservation)
        self._pending.append(_Pending(name, kind, pid, port, log, token, reservation))

    def _address_text(self, each: _Pending) -> str:
        at = f"{LOOPBACK}:{each.port}"
        text = f"{each.kind.title} (services.{each.name}) listens at http://{at}/"
        if not self._local:
            host = processes.host_name()
            text += f" of {host}: ssh -L {each.port}:{at} {host}"
        return f"{text}; its token is in {each.token}" if each.token else text

    def _end_text(self, each: _Pending) -> str:
        what = f"{each.kind.title} (services.{each.name})"
        text = read_tail(each.log, _TAIL).decode("utf-8", "replace")
        if "No module named" in text:
            return f"{what} is not installed for {self._plan.python}: pip install {each.kind.package}"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"{what} has ended: {lines[-1][:_LINE] if lines else 'its log is empty'} (all of it: {each.log})"


def service_argv(python: str, service: Mapping[str, Any], port: int, code: str) -> tuple[str, ...]:
    """Return the command line that starts a service of a job (TensorBoard or JupyterLab) with the interpreter `python`,
    listening on `port` of the loopback only. Its `log_dir` is relative to `code`, the ranks' working directory, which
    contains `outputs`."""
    run = (python, "-m", KINDS[service["type"]].module)
    if service["type"] == "tensor_board":
        logs = os.path.join(code, str(service.get("log_dir") or _LOG_DIR))
        return (*run, f"--logdir={logs}", f"--host={LOOPBACK}", f"--port={port}")
    root = ("--allow-root",) if sys.platform != "win32" and os.getuid() == 0 else ()
    return (
        *run, "--no-browser", f"--ServerApp.ip={LOOPBACK}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={code}", *root,
    )  # fmt: skip


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), _CONNECT).close()
    except OSError:
        return False
    return True
