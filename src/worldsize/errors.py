"""The errors that worldsize raises on purpose.

WorldsizeError                  exit 1
├── UsageError                  exit 2   the command line, a file or the configuration is wrong; nothing was created
│   ├── JobError                         a job: file, line, YAML path, what was expected, the fix
│   ├── ConfigError                      worldsize.toml: file, line, key
│   ├── NotFound                         a run, compute or path that does not exist
│   └── PreflightError                   everything that would go wrong with a run
├── PlanError                   exit 2   the job and the compute do not fit together
├── SnapshotError               exit 2   the code cannot be snapshotted (too large, unreadable)
├── StorageError                exit 1   the run directory cannot be written
├── BuildError                  exit 1   an environment cannot be built
├── SubmitRejected              exit 1   the compute rejected the job for good
├── SubmitAgain                 exit 1   the compute could not answer now; a retry is safe
├── RendezvousError             exit 1   a node could not learn the head's address, or the world is not complete
├── DamagedRun                  exit 1   a file of a run that cannot be understood; a ValueError, too
│   └── NewerFormat                      a file whose format is that of a newer worldsize
└── RunFailed                   exit = the first failing rank's   raised by Run.wait(check=True)

Standard library only: this module travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WorldsizeError(Exception):
    """An expected problem with a full description: what happened, where, and what to do next.

    `where` is a file with line, a key, or a command. `hint` is the fix. Neither ever contains a secret.
    """

    exit_code = 1

    def __init__(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  → {self.hint}" if self.hint else text


class UsageError(WorldsizeError):
    """A mistake in the user's input: words, files or configuration. Nothing has been created."""

    exit_code = 2


class JobError(UsageError):
    pass


class ConfigError(UsageError):
    pass


class NotFound(UsageError):
    """A run, compute or path that does not exist."""


class PreflightError(UsageError):
    """All problems that a run would have. `findings` are the errors of preflight, each with `what`, `where` and
    `hint`."""

    findings: tuple[Any, ...] = ()


class PlanError(WorldsizeError):
    exit_code = 2


class SnapshotError(WorldsizeError):
    exit_code = 2


class StorageError(WorldsizeError):
    pass


class BuildError(WorldsizeError):
    pass


class SubmitRejected(WorldsizeError):
    pass


class SubmitAgain(WorldsizeError):
    pass


class RendezvousError(WorldsizeError):
    pass


class DamagedRun(WorldsizeError, ValueError):
    """A file of a run that cannot be understood, such as one that a power failure left empty. `where` is its path."""


class NewerFormat(DamagedRun):
    """A file of a format that only a newer worldsize reads."""


class RunFailed(WorldsizeError):
    """A run that did not succeed. `exit_code` is the first failing rank's."""

    def __init__(self, what: str, exit_code: int = 1, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where, hint)
        self.exit_code = exit_code or 1


def windows_error() -> UsageError:
    """Return the error of everything that needs Linux, for a Python of Windows."""
    what = "worldsize needs Linux, and this is a Python of Windows"
    return UsageError(what, None, "install and use it in WSL 2: docs/how-to/clusters/hpcpack-windows.md")


def error_text(cause: BaseException) -> str:
    """Return the exception `cause` as text on one line: its class, then at most 500 characters of its message."""
    try:
        said = " ".join(str(cause).split())
    except Exception as second:  # noqa: BLE001  the author's own __str__ may raise anything
        said = f"({type(second).__name__} in its text)"
    return f"{type(cause).__name__}: {said:.500}" if said else type(cause).__name__
