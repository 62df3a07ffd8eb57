"""The failure of a rank as one `Failure`, made from the rank's exception or its exit code."""

from __future__ import annotations

import json
import os
import re
import time

from worldsize.common.atomic_files import read_file, read_if_possible, read_tail
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.first_failure import ABORTED, COLLECTIVE_TIMEOUT
from worldsize.state.records import Failure, Reason

# Compiled when first used: most runs never need it, and every run would wait for it.
_NO_SPACE = r"\[Errno (28|122)\]|No space left on device|Disk quota exceeded"
_MEMORY_TYPES = ("MemoryError", "OutOfMemoryError")
_MAX_BYTES = 4 << 20

_STOP_CODES = (137, 143)
"""Exit codes of a rank that was ended by the signals that stop ranks: TERM, then KILL."""

_RAISED = 1
"""Python's exit code after an uncaught exception."""

_READ, _SHOWN = 20_000, 500
"""Numbers of characters of an exception's first line that are read, and that are shown. More are read than shown,
because a secret that is cut before it is masked may no longer look like one."""

_ABORT = 134
_LAST_BYTES = 128 * 1024
"""Bytes that are read from the end of the log of a rank that was aborted. Stack traces of native code follow the
reason."""

_FRAME_KEYS = ("file", "line", "function", "code")
_LEAVING_SECONDS = 30
"""Seconds after an uncaught exception within which an abort comes from the shutdown of the interpreter, because threads
of gloo still run."""


def read_error(paths: RunPaths, rank: int, torchelastic_file: str | None = None) -> dict[str, Any] | None:
    """Read the exception that a rank has recorded in its error file: {type, message, frames: [{file, line, function,
    code}], time}. Return None if the rank has recorded none.

    The hook that Python ranks load writes the exception. Scripts under torch's @record write another form, which is
    read here too.
    """
    path = paths.rank_error(rank)
    return _parse_hook_error(_read_json(path)) or _parse_torchelastic_error(
        _read_json(torchelastic_file or path + ".torchelastic")
    )


def has_errors(paths: RunPaths) -> bool:
    """Return whether any rank of the attempt has recorded an exception, that is, whether the directory of the error
    files has entries."""
    try:
        return bool(os.listdir(paths.errors_dir))
    except OSError:  # without the directory there are none
        return False


def _read_json(path: str) -> dict[str, Any]:
    """Return the JSON object in a rank's error file; {} if the file is missing or contains anything else. Scripts may
    write there as well as the hook, and their node may end in the middle of a write."""
    try:
        value = json.loads(read_file(path, _MAX_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _parse_hook_error(value: dict[str, Any]) -> dict[str, Any] | None:
    known = isinstance(value.get("type"), str) and isinstance(value.get("message"), str)
    frames, stack = value.get("frames"), value.get("stack", [])
    if not known or not isinstance(frames, list) or not all(map(_is_frame, frames)):
        return None
    if not isinstance(stack, list) or not all(isinstance(line, str) for line in stack):
        return None
    shown: dict[str, Any] = {name: value[name] for name in ("type", "message", "stack") if name in value}
    kept = [{name: frame[name] for name in _FRAME_KEYS} for frame in frames]
    return {**shown, "frames": kept, "time": _seconds(value.get("time"))}


def _is_frame(frame: Any) -> bool:
    if not isinstance(frame, dict) or "line" not in frame:
        return False
    return all(isinstance(frame.get(key), str) for key in _FRAME_KEYS if key != "line")


def _parse_torchelastic_error(value: dict[str, Any]) -> dict[str, Any] | None:
    message = value.get("message")
    if isinstance(message, str):
        return {"type": "", "message": message, "frames": [], "time": 0.0}
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    kind, _, text = str(message.get("message", "")).partition(": ")
    stack = str(extra.get("py_callstack", "")).splitlines()
    return {"type": kind, "message": text, "frames": [], "stack": stack, "time": _seconds(extra.get("timestamp"))}


def _seconds(value: Any) -> float:
    """Return the time that a rank's error file contains, any JSON value, as Unix seconds; 0 if it is not a number."""
    try:
        seconds = float(value or 0)
    except (TypeError, ValueError):
        return 0.0
    return seconds if seconds == seconds else 0.0


def code_after_exception(code: int) -> int:
    """Return the exit code that counts for a rank that has raised an exception and ended with `code`. If the rank was
    stopped by TERM or KILL while its interpreter was still shutting down, it is that of the exception, 1; else `code`.
    """
    return _RAISED if code in _STOP_CODES else code


def rank_failure(
    rank: int, node_rank: int, host: str, code: int, ended: float, error: dict[str, Any] | None, oom_killed: bool
) -> Failure:
    """Return the Failure of one rank that ended with `code` by itself. The message contains the exception `error` that
    the rank has recorded, if any. The time is that of the exception, else `ended`.

    An abort right after the exception counts as Python's exit code for an exception, 1.
    """
    said = _error_text(error) if error else ""
    if error and code == _ABORT and ended - error["time"] < _LEAVING_SECONDS:
        code = _RAISED
    name = signal_name(code)
    if name:
        how = f"was killed by signal {code - 128} ({name})"
        reason = Reason.OUT_OF_MEMORY if oom_killed and code == 137 else Reason.SIGNAL
    else:
        how = f"exited with code {code}"
        reason = Reason.EXIT_CODE
    if re.search(_NO_SPACE, said):
        reason = Reason.STORAGE
    elif error and str(error["type"]).rpartition(".")[2] in _MEMORY_TYPES:
        reason = Reason.OUT_OF_MEMORY
    message = f"rank {rank} on node {node_rank} ({host}) {how}"
    if error and said.strip():
        message += ": " + exception_text(error)
    raised = error["time"] or ended if error else ended
    return Failure(reason, message, node_rank, rank, code, min(raised, ended))


def exception_text(error: dict[str, Any]) -> str:
    """Return the type and the first line of the message of a rank's recorded exception `error`, with secret-like parts
    masked; "" if both are empty."""
    from worldsize.trust.secrets import mask_text

    lines = _error_text(error).strip().splitlines()
    return mask_text(lines[0][:_READ])[:_SHOWN] if lines else ""


def _error_text(error: dict[str, Any]) -> str:
    return ": ".join(filter(None, (error["type"], error["message"])))


def without_secrets(failure: Failure, plan: Plan) -> Failure:
    """Return the failure with the values of the plan's secrets masked in its message, because the message is sent to
    the other nodes, and a group may be allowed to read the run's records."""
    from worldsize.plan.secrets_file import plan_secret_values
    from worldsize.trust.secrets import mask_values

    return failure._replace(message=mask_values(failure.message, plan_secret_values(plan)))


def with_storage_reason(failure: Failure, directory: str) -> Failure:
    """Return the failure with the reason STORAGE, and with a message that states that there is no space left on
    `directory`."""
    said = re.search(_NO_SPACE, failure.message)
    message = failure.message if said else f"{failure.message}: no space left on {directory}"
    return failure._replace(reason=Reason.STORAGE, message=message)


def with_watchdogs_words(failure: Failure, paths: RunPaths) -> Failure:
    """Return the failure of a rank that was aborted without an exception, with the line of the rank's log appended to
    the message that reports a timeout in a collective call, if there is one. NCCL's watchdog raises no exception in the
    rank. Return other failures unchanged."""
    if failure.rank is None or failure.code != _ABORT or not failure.message.endswith(ABORTED):
        return failure
    from worldsize.trust.secrets import mask_text

    lines = read_tail(paths.rank_log(failure.rank), _LAST_BYTES).decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in lines if re.search(COLLECTIVE_TIMEOUT, line)), None)
    if said is None:
        return failure
    return failure._replace(message=f"{failure.message}: {mask_text(said[:_READ])[:_SHOWN]}")


def start_failure(
    command: str, rank: int | None, node_rank: int, error: OSError, directory: str, full: bool
) -> Failure:
    """Return the Failure of a rank whose `command` could not be started because of `error`, with exit code 127 if the
    command does not exist, else 126.

    `full` means that the disk of `directory` has no room.
    """
    missing = isinstance(error, FileNotFoundError)
    what = f"{command}: {error.strerror}"
    failure = Failure(Reason.EXIT_CODE, what, node_rank, rank, 127 if missing else 126, time.time())
    return with_storage_reason(failure, directory) if full else failure


def oom_kills() -> int:
    """Return how often this machine's kernel has killed a process because memory had run out; -1 if the kernel does not
    report it."""
    _, found, rest = read_if_possible("/proc/vmstat").partition(b"\noom_kill ")
    return int(rest.split(None, 1)[0]) if found else -1
