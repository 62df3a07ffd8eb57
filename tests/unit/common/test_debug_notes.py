"""Decisions and programs, as `-v` tells them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys
from worldsize.common.debug_notes import begin_notes, is_noting, note_decision
note_decision("before")
assert not is_noting()
begin_notes(lambda line: print(line, flush=True), 0.0)
assert is_noting()
note_decision("a decision with --token=abcdef0123456789")
subprocess.run(["sh", "-c", "exit 3", "--api-key", "abcdef0123456789"])
subprocess.Popen(["true"]).wait()
os.waitpid(os.posix_spawn("/bin/true", ["true", "x y"], {}), 0)
subprocess.run(["/bin/sh", "-c", "exit 4"])
try:
    subprocess.call("/no/such/program")
except FileNotFoundError:
    pass
if os.fork() == 0:
    note_decision("of a child")
    os._exit(0)
os.wait()
"""


@pytest.mark.heavy
def test_what_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(re.match(r"\[ *\d+\.\d{3} s\] ", line) for line in lines)
    told = [re.sub(r"after \d+\.\d+ s", "after N s", line.partition("] ")[2]) for line in lines]
    is_spawned = sys.version_info >= (3, 13)  # by posix_spawn, which fails without a child
    assert told == [
        "a decision with --token=***",
        "starts sh -c 'exit 3' --api-key ***",
        "code 3 after N s: sh -c 'exit 3' --api-key ***",
        "starts true",
        "code 0 after N s: true",
        "starts true 'x y' in the background",
        "starts /bin/sh -c 'exit 4'",
        "code 4 after N s: /bin/sh -c 'exit 4'",
        "starts /no/such/program",
        *([] if is_spawned else ["code 255 after N s: /no/such/program"]),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "variable", "told"),
    [(["list", "-v"], "", True), (["--verbose", "list"], "", True), (["list"], "1", True), (["list"], "0", False),
     (["list"], "", False)],
)  # fmt: skip
def test_who_asks_for_it(words: list[str], variable: str, told: bool, tmp_path: Path) -> None:
    environ = {"WORLDSIZE_HOME": str(tmp_path), "WORLDSIZE_DEBUG": variable, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", *words], capture_output=True, text=True, env=environ, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert ("configuration: " in done.stderr and "the default compute is local" in done.stderr) == told
