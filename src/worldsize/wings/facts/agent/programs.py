"""The versions of the MPI and the compiler that a node's ranks find first: the two that no file tells reliably, so that
the programs are asked.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.agent.posix.processes import HELPER_OF, find_program
from worldsize.state.node_facts import Rows

_LIMIT = 5.0
"""Seconds that a program may take: on a network file system that is busy, seconds."""

_MPIS = (
    (re.compile(r"Open MPI\) (\d[\w.]*)"), "Open MPI"),
    (re.compile(r"Intel\(R\) MPI Library.*?Version (\d[\w. ]*?)(?: Build|\n|$)"), "Intel MPI"),
    (re.compile(r"HYDRA build details:\s+Version:\s+(\d[\w.]*)"), "MPICH (Hydra)"),
    (re.compile(r"PRTE\w*\)? (\d[\w.]*)"), "PRRTE"),
)


def program_rows(environ: Mapping[str, str]) -> Rows:
    """The rows "MPI" and "compiler"; what is not there is left out."""
    rows = (("MPI", mpi_text(_said(environ, "mpirun", "--version"))), ("compiler", _compiler(environ)))
    return tuple((name, text) for name, text in rows if text)


def mpi_text(said: str) -> str:
    """ "Open MPI 4.1.4" of what `mpirun --version` says; "" where it is not known."""
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
    """What the program says; "" where there is none, or it fails or takes too long. Where PATH names a directory by a
    relative path, it is not looked into: what lies in the code is none of the node's programs."""
    places = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    helper = os.environ.get(HELPER_OF, "")  # so that no agent takes the program for what a rank has left
    own = {**environ, "PATH": os.pathsep.join(places), "LC_ALL": "C", HELPER_OF: helper}
    try:
        program = find_program(name, own)
    except OSError:
        return ""
    import subprocess

    try:
        done = subprocess.run(
            [program, *options], env=own, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=_LIMIT,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout[:4096].decode("utf-8", "replace") if done.returncode == 0 else ""
