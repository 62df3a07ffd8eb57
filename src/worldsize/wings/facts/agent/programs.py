"""The versions of the MPI and the compiler that a node's ranks find first. No file states these two reliably, so that
the programs are executed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import HELPER_OF, find_program
from worldsize.state.node_facts import Rows

_LIMIT = 5.0
"""The maximum run time of a program in seconds. On a busy network file system its start takes seconds."""

_MOST = 1 << 14
"""The maximum number of bytes that are read. Hydra prints some thousands about its build."""

_MPIS = (
    (re.compile(r"Open MPI\) (\d[\w.]*)"), "Open MPI"),
    (re.compile(r"Intel\(R\) MPI Library.*?Version (\d[\w. ]*?)(?: Build|\n|$)"), "Intel MPI"),
    (re.compile(r"HYDRA build details:\s+Version:\s+(\d[\w.]*)"), "MPICH (Hydra)"),
    (re.compile(r"PRTE\w*\)? (\d[\w.]*)"), "PRRTE"),
)


def program_rows(environ: Mapping[str, str]) -> Rows:
    """Return the rows "MPI" and "compiler" of a node's software facts, with the versions of mpirun and gcc on the PATH
    of `environ`. Missing programs are left out."""
    rows = (("MPI", mpi_text(_said(environ, "mpirun", "--version"))), ("compiler", _compiler(environ)))
    return tuple((name, text) for name, text in rows if text)


def mpi_text(said: str) -> str:
    """Return the name and version of an MPI, such as "Open MPI 4.1.4", from the output of `mpirun --version`; "" if
    unknown."""
    for pattern, name in _MPIS:
        found = pattern.search(said)
        if found:
            return f"{name} {found[1][:40]}"
    return ""


def _compiler(environ: Mapping[str, str]) -> str:
    said = _said(environ, "gcc", "-dumpfullversion", "-dumpversion")
    found = re.fullmatch(r"\d[\d.]{0,20}", said.strip())
    return f"gcc {found[0]}" if found else ""


def _said(environ: Mapping[str, str], name: str, *options: str) -> str:
    """Return the output of the program `name` with `options`. "" if it is missing, fails or takes too long. Relative
    directories in PATH are ignored, since programs in the run's code are not those of the node."""
    places = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    helper = os.environ.get(HELPER_OF, "")  # so that no agent takes the program for a process that a rank left
    own = {**environ, "PATH": os.pathsep.join(places), "LC_ALL": "C", HELPER_OF: helper}
    try:
        program = find_program(name, own)
    except OSError:
        return ""
    return _output_of((program, *options), own)


def _output_of(words: Sequence[str], environ: Mapping[str, str]) -> str:
    import select
    import subprocess

    try:
        process = subprocess.Popen(
            words, env=environ, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return ""
    assert process.stdout is not None
    deadline, said, file = time.monotonic() + _LIMIT, b"", process.stdout.fileno()
    with process.stdout:
        while len(said) < _MOST and select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(file, _MOST)
            if not part:
                break
            said += part
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # including the processes that a script has started
        code = process.wait()
    return said.decode("utf-8", "replace") if code == 0 else ""
