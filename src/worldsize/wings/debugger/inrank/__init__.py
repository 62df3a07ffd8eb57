"""The rank's side of `run --debugpy RANK`: each Python that the rank's command starts waits for a debugger before its
script.

In a run this is `worldsize_inrank.debugger`, called by sitecustomize (`import_hook`). debugpy belongs to the job's
environment. Processes that this Python starts do not wait, since the variable is removed first.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_LOOPBACK = "127.0.0.1"
_HELPER_OF = "WORLDSIZE_HELPER_OF"
"""The variable by which the agent distinguishes debugpy's own process, which outlives the rank for a moment, from
processes that a rank has left behind (`agent.posix.processes`)."""


def at_start() -> None:
    """Wait for a debugger to attach, if this Python process is the rank that `--debugpy` names. Terminate the rank if
    debugpy is missing or does not listen."""
    if "WORLDSIZE_LAUNCH" in os.environ or not os.environ.pop("WORLDSIZE_DEBUGGER", ""):
        return
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # Python's own frozen modules are not debugged
    try:
        import debugpy  # noqa: T100
    except ImportError:
        _end(
            f"worldsize: --debugpy: the job's Python ({sys.executable}) has no debugpy",
            "pip install debugpy",
        )
    os.environ[_HELPER_OF] = _agent()
    try:
        host, port = debugpy.listen((_LOOPBACK, 0))  # noqa: T100
        _announce(host, port)
    except Exception as error:  # noqa: BLE001  debugpy raises RuntimeError and OSError, and errors of its own
        _end(f"worldsize: --debugpy: debugpy does not listen: {error}", "run without --debugpy")
    del os.environ[_HELPER_OF]
    debugpy.wait_for_client()  # noqa: T100


def on_torch(torch: ModuleType) -> None:
    """Do nothing: torch needs no change."""


def _agent() -> str:
    """Return the process ID of the node's agent, which has started this rank. "" if it cannot be read."""
    try:
        with open(f"/proc/{os.getsid(0)}/stat") as file:
            return file.read().rpartition(") ")[2].split()[1]
    except (OSError, IndexError):
        return ""


def _announce(host: str, port: int) -> None:
    """Write the debugger's address (`host`, `port`) to a JSON file in the attempt's directory, for the client that
    follows the run. Raise OSError."""
    rank = os.environ["WORLDSIZE_RANK"]
    said = {"rank": int(rank), "node": os.uname().nodename, "host": host, "port": port, "pid": os.getpid()}
    directory = os.path.join(os.environ["WORLDSIZE_RUN_DIR"], "attempt-" + os.environ["WORLDSIZE_ATTEMPT"])
    path = os.path.join(directory, f"debugger-{int(rank):05d}.json")
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(said, file)
    os.replace(temporary, path)


def _end(what: str, hint: str) -> None:
    """Print the error `what` and `hint` to stderr, and terminate the rank with exit code 2. An exception here would
    only be printed, and the script would be executed all the same."""
    sys.stderr.write(f"{what}\n  → {hint}\n")
    sys.stderr.flush()
    os._exit(2)
