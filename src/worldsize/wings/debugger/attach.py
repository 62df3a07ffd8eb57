"""The client side of `run --debugpy RANK`: it shows where a debugger can attach."""

from __future__ import annotations

import json

from worldsize.cli.output import report
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.cli.runs.follow import LogReader


class LogWithDebugger:
    """A log, together with instructions on stderr on where a debugger can attach to the rank that waits for one."""

    def __init__(self, run: Run, paths: RunPaths, log: LogReader) -> None:
        self._paths = paths
        self._log = log
        self._rank = run.plan.debugger
        self._told: dict[str, Any] = {}

    def poll(self) -> bool:
        """Print new output of the run's log, and instructions for the debugger if they are new. Return whether anything
        was printed."""
        told = self._tell()
        return self._log.poll() or told

    def finish(self) -> None:
        """Print the rest of the run's log."""
        self._log.finish()

    def _tell(self) -> bool:
        if self._rank is None:
            return False
        found = read_object(self._paths.debugger(self._rank))
        if not found or found == self._told:
            return False
        self._told = found
        report(*attach_lines(found, self._paths, _code_directory(self._paths)))
        return True


def attach_lines(found: dict[str, Any], paths: RunPaths, code: str | None) -> list[str]:
    """Return the lines that explain how to attach a debugger to a rank. `found` is the debugger's address as the rank
    has written it (rank, node, host, port). `code` is the directory that the run's code was copied from; None if it is
    unknown."""
    rank, node, host, port = (found.get(name) for name in ("rank", "node", "host", "port"))
    return [
        f"rank {rank} on {node} waits for a debugger at {host}:{port}",
        f"  every user with an account on {node} can attach, and then execute anything as you",
        f"  from another machine: ssh -N -L {port}:{host}:{port} {node}",
        "  launch.json of VS Code, below configurations:",
        *("  " + line for line in json.dumps(configuration(found, paths, code), indent=2).split("\n")),
    ]


def configuration(found: dict[str, Any], paths: RunPaths, code: str | None) -> dict[str, Any]:
    """Return the entry of `configurations` in VS Code's launch.json that attaches to the rank's debugger `found`. It
    maps the directory `code` to the run's copy of the code, which the run executes."""
    mapped = [{"localRoot": code, "remoteRoot": paths.code}] if code else []
    return {
        "name": f"worldsize {paths.run_id}, rank {found.get('rank')}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": found.get("host"), "port": found.get("port")},
        "pathMappings": mapped,
        "justMyCode": False,
    }


def _code_directory(paths: RunPaths) -> str | None:
    code = read_object(paths.record).get("code")
    directory = code.get("directory") if isinstance(code, dict) else None
    return directory if isinstance(directory, str) else None
