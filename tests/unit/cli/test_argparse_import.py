"""argparse is imported without gettext, and nobody is left with the module that stood in for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
{before}
import worldsize.cli.main
assert ("gettext" in sys.modules) is {loaded}, sys.modules.get("gettext")
import gettext, argparse
assert gettext.__file__ and gettext.find is not None
parser = argparse.ArgumentParser(prog="p")
parser.add_argument("--number", type=int, nargs=2)
parser.parse_args(["--number", "1"])
"""


@pytest.mark.parametrize(("before", "loaded"), [("", False), ("import gettext", True), ("import argparse", True)])
def test_argparse_speaks_without_gettext(before: str, loaded: bool) -> None:
    program = PROGRAM.format(before=before, loaded=loaded)
    done = subprocess.run([sys.executable, "-S", "-c", "import sys; sys.path[:0] = %r\n%s" % (sys.path, program)],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith("p: error: argument --number: expected 2 arguments\n")
