"""Loaded by every Python rank through PYTHONPATH: keeps an uncaught exception as data, and changes nothing else.

Written to the file that WORLDSIZE_ERROR_FILE names; the traceback is printed as ever. A sitecustomize of the user's
or the distribution's own, further down the path, is run as it would have been.
Standard library only, and next to nothing of it until something fails.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_TEXT = 20_000
_MAX_FRAMES = 50
_MAX_CODE = 500
_CONSEQUENCE_SECONDS = 30


def _run_the_next_one() -> None:
    from _frozen_importlib_external import PathFinder  # importlib's own, without importing it: 0.5 ms of every rank

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        from _frozen_importlib import module_from_spec

        module = module_from_spec(spec)
        spec.loader.exec_module(module)


def _write(kind: Any, value: Any, trace: Any) -> None:
    import json
    import linecache
    import time

    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        line = linecache.getline(code.co_filename, trace.tb_lineno, trace.tb_frame.f_globals).strip()[:_MAX_CODE]
        frames.append({"file": code.co_filename, "line": trace.tb_lineno, "function": code.co_name, "code": line})
        trace = trace.tb_next
    name = kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)
    try:
        message = str(value)[:_MAX_TEXT]
    except Exception:  # noqa: BLE001  the user's own __str__ may raise anything
        message = "<the exception's message could not be made>"
    report = {
        "type": name,
        "message": message,
        "frames": frames[-_MAX_FRAMES:],
        "time": time.time(),
        "pid": os.getpid(),
    }
    path = os.environ["WORLDSIZE_ERROR_FILE"]
    if _follows_from_another(path, report):
        return
    temporary = "%s.%d.tmp" % (path, os.getpid())
    with open(temporary, "w") as file:
        json.dump(report, file)
    os.replace(temporary, path)


def _follows_from_another(path: str, report: dict[str, Any]) -> bool:
    """Whether a child process of this rank failed a moment ago: what its parent then raises tells less."""
    import json

    try:
        with open(path) as file:
            first = json.load(file)
    except (OSError, ValueError):
        return False
    return bool(first["pid"] != report["pid"] and report["time"] - first["time"] < _CONSEQUENCE_SECONDS)


def _hook(kind: Any, value: Any, trace: Any) -> None:
    try:
        # Recording imports, which makes Python forget that an interrupted program is to end by SIGINT.
        if not issubclass(kind, KeyboardInterrupt):
            _write(kind, value, trace)
    except OSError:
        pass  # a full disk or a deleted run directory must not hide the traceback itself
    _printed(kind, value, trace)


if os.environ.get("WORLDSIZE_ERROR_FILE"):
    _printed = sys.excepthook
    sys.excepthook = _hook
_run_the_next_one()
