"""Ctrl-C at each thing that a submission does to the file system, and once more while that is undone: a whole run, or
none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from driver import Cli

INTERRUPTED = """
import os, signal, sys

pid, number, runs, seen = os.getpid(), int(sys.argv.pop(1)), os.path.join(os.environ["WORLDSIZE_HOME"], "runs"), 0

def interrupt(event, arguments):
    global seen
    if event == "shutil.rmtree":
        os.kill(pid, signal.SIGINT)
    if event in ("open", "os.mkdir", "os.symlink", "os.link", "os.rename", "os.remove"):
        if os.getpid() == pid and any(str(path).startswith(runs) for path in arguments[:2]):
            seen += 1
            if seen == number:
                os.write(2, b"now\\n")
                os.kill(pid, signal.SIGINT)

sys.addaudithook(interrupt)
from worldsize.cli.main import run
run()
"""


@pytest.mark.exhaustive(unless=["run"])
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [(), ("--matrix", "a=1,2")], ids=["run", "array"])
def test_ctrl_c_at_any_time_leaves_a_whole_run_or_none(cli: Cli, words: tuple[str, ...]) -> None:
    cli.write("job.yml", "command: 'true'\ninputs: {a: 1}\n")
    first_kept = None
    for number in range(1, 200):
        code, err = interrupted(cli, number, "submit", "job.yml", *words)
        if not err.startswith("now\n"):
            break
        assert (code, err) == (130, "now\nworldsize: interrupted\n"), number
        kept = cli.json("list", "--all")
        if first_kept is None and kept:
            first_kept = number
        assert len(kept) == (0 if first_kept is None else number - first_kept + 1), number
    assert code == 0 and first_kept is not None and first_kept > 20
    for run in cli.json("list", "--all"):
        assert cli("wait", run["id"]).code == 0


def interrupted(cli: Cli, number: int, *words: str) -> tuple[int, str]:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(number), *words],
        cwd=cli.project, env=cli.environ, capture_output=True, timeout=30,
    )  # fmt: skip
    return process.returncode, process.stderr.decode()
