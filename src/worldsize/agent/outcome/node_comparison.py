"""The search on this node for a file, a readable file, or a Python module that a rank of another node did not find.

It distinguishes what is missing on one node from what is missing everywhere. The node searches once its own ranks have
ended, in a child process, because the file may be on a file system that no longer responds.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.records import Failure

PATIENCE = 2.0
"""Seconds until the child counts as having no answer."""

_FILE = r"(FileNotFoundError|PermissionError): \[Errno \d+\] [^:]*: '([^'\0]+)'"
_MODULE = r"ModuleNotFoundError: No module named '([\w.]+)'"
_HAS_MODULE = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec(sys.argv[1]) else 3)"
_FOUND, _TEST_MISSING, _MODULE_MISSING = 0, 1, 3


class Question(NamedTuple):
    """The object that the node searches for. `what` is "file", "readable file" or "module"."""

    what: str
    name: str


def question_of(failure: Failure) -> Question | None:
    """Return the file or module that a failed rank did not find, according to the message of `failure`, as a Question;
    None if the message does not report a missing file, an unreadable file or a missing module."""
    module = re.search(_MODULE, failure.message)
    if module is not None:
        return Question("module", module[1].partition(".")[0])
    file = re.search(_FILE, failure.message)
    if file is None:
        return None
    return Question("file" if file[1] == "FileNotFoundError" else "readable file", file[2])


def is_found(question: Question, argv: Sequence[str], environ: Mapping[str, str]) -> bool | None:
    """Return whether this node has the file, readable file or module of `question`, in this process's working
    directory, which is that of the ranks, and with the ranks' environment `environ`; None if there is no answer in
    time. `argv` is the command of the ranks; its Python looks for a module."""
    if question.what == "module":
        first = argv[0] if argv and os.path.basename(argv[0]).startswith("python") else "python"
        words, missing = [first, "-c", _HAS_MODULE, question.name], _MODULE_MISSING
    else:
        option = "-e" if question.what == "file" else "-r"
        words, missing = ["/bin/sh", "-c", f'test {option} "$1"', "sh", question.name], _TEST_MISSING
    code = _code_in_time(words, environ)
    return None if code not in (_FOUND, missing) else code == _FOUND


def _code_in_time(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Run the program `words` with the environment `environ`, without input and output, and return its exit code; None
    if it cannot be started or takes longer than PATIENCE seconds. A program that takes too long is killed and not
    waited for, because a process that waits for a file system may never end."""
    try:
        child = subprocess.Popen(
            words, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except (OSError, ValueError):
        return None
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        code = child.poll()
        if code is not None:
            return code
        time.sleep(0.002)
    child.kill()
    return None
