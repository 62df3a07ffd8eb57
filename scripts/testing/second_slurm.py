"""The tests on Slurm once more, in the root directory of a Debian release with another release of Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from scripts.environments.roots import NotPossible, inside, obtain_root
from scripts.testing.lanes import ROOT, SUMMARY


def run_there(slurm: str, tests: str, arguments: Sequence[str]) -> int:
    """Run a tier of the tests of part `slurm`; the exit code. That they cannot run is an error under CI alone."""
    try:
        entering = inside(obtain_root(slurm))
    except NotPossible as error:
        return go_without(slurm, str(error))
    words = [sys.executable, "-m", "scripts.testing", tests, "--part", "slurm", "--name", "Slurm " + slurm, *arguments]
    print("==> tests on Slurm %s" % slurm, flush=True)
    return subprocess.call([*entering, *words], cwd=ROOT)


def go_without(slurm: str, lack: str) -> int:
    """Say that no test has run, and why; the exit code."""
    print("!!  no Slurm %s: %s" % (slurm, lack), file=sys.stderr)
    print("!!      THE TESTS ON SLURM %s ARE SKIPPED" % slurm, file=sys.stderr, flush=True)
    line = "==== Slurm %s: skipped, %s ====" % (slurm, lack)
    print(line, flush=True)
    if os.environ.get(SUMMARY):
        with open(os.environ[SUMMARY], "a", encoding="utf-8") as file:
            file.write(line + "\n")
    return int(os.environ.get("CI", "").lower() in ("1", "true", "yes"))
