"""debug: one rank that has the terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest
from driver import Cli, wait_for
from terminal import Terminal

SCRIPT = """\
import os, sys
print("terminals", os.isatty(0), os.isatty(1), os.isatty(2), "of", os.environ["WORLD_SIZE"])
value = 41
breakpoint()
print("value is", value)
sys.exit(5)
"""
JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: python train.py
code: .
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 2, launcher: torchrun}
limits: {timeout: 1}
"""


def test_pdb_has_the_terminal_and_the_exit_code_is_the_ranks(cli: Cli) -> None:
    cli.write("train.py", SCRIPT)
    cli.write("job.yml", JOB)
    with Terminal(cli, "debug", "job.yml") as terminal:
        terminal.until("terminals True True True of 1", 120)
        terminal.until("(Pdb)")
        terminal.type("value += 1\n")
        terminal.until("(Pdb)")
        terminal.type("continue\n")
        terminal.until("value is 42")
        assert terminal.end() == 5
    assert "exit code 5" in terminal.shown


def test_ctrl_c_reaches_the_rank_and_ctrl_z_stops_nothing(cli: Cli) -> None:
    cli.write(
        "train.py", "try:\n    print(input('name? '))\n    input()\nexcept KeyboardInterrupt:\n    print('heard')\n"
    )
    with Terminal(cli, "debug", "--", "python", "train.py") as terminal:
        terminal.until("name? ", 120)
        wait_for(lambda: cli.has_begun(cli.latest()))
        terminal.type("\x1aZoe\n")
        terminal.until("Zoe\r\nZoe")
        terminal.type("\x03")
        terminal.until("heard")
        assert terminal.end() == 0


def test_piped_input_reaches_the_script(cli: Cli) -> None:
    words = ["debug", "--", "python", "-c", "import sys; print(sys.stdin.read().upper(), end=''); sys.exit(3)"]
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", *words],
        input=b"one\ntwo\n",
        cwd=cli.project,
        env=cli.environ,
        capture_output=True,
        timeout=180,
    )
    assert (done.returncode, done.stdout) == (3, b"ONE\nTWO\n"), done.stderr


@pytest.mark.exhaustive
def test_a_pipe_on_both_sides_at_a_terminal(cli: Cli) -> None:
    line = "echo one | %s -m worldsize debug -- tr a-z A-Z | tr O 0" % sys.executable
    with Terminal(cli, line, shell=True) as terminal:
        assert terminal.end(180) == 0
    assert "0NE" in terminal.shown and "SUCCEEDED" in terminal.shown


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("command: sleep 0\nmatrix: {lr: [1, 2]}\ninputs: {lr: 1}\n", "one run is debugged at a time"),
        ("command: python t.py\ndistribution: {type: tensorflow, worker_count: 2}\n", "have roles"),
        ("command: sleep 0\ndistribution: {type: mpi}\n", "only a rank that the agent starts"),
    ],
)
def test_jobs_that_cannot_be_one_rank(cli: Cli, job: str, words: str) -> None:
    cli.write("job.yml", job)
    result = cli("debug", "job.yml", timeout=120)
    assert result.code == 2 and words in result.err, result
