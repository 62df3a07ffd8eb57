"""At a terminal: colour, a line of progress, and the shell's completion."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from driver import Cli, wait_for

IMPATIENT = (
    "from worldsize.cli import progress_line; progress_line._PATIENCE = 0.0; from worldsize.cli.main import run; run()"
)
"""The command line, which tells at once how far it is: a fast machine has done it within a moment."""


def at_terminal(cli: Cli, *words: str, start: tuple[str, str] = ("-m", "worldsize"), **environ: str) -> tuple[int, str]:
    """The exit code and all that a command wrote to the screen."""
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(cli.project)
        command = [sys.executable, *start, *words]
        os.execve(sys.executable, command, {**cli.environ, "TERM": "xterm", **environ})
    shown = b""
    try:
        while data := os.read(screen, 65536):
            shown += data
    except OSError:
        pass  # the other side of the terminal is closed
    status = os.waitpid(pid, 0)[1]
    os.close(screen)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")


def test_states_have_colours_at_a_terminal_only(cli: Cli) -> None:
    code, shown = at_terminal(cli, "run", "--", "true")
    assert code == 0 and "\x1b[32mSUCCEEDED\x1b[0m" in shown
    code, shown = at_terminal(cli, "run", "--", "false")
    assert code == 1 and "\x1b[31mFAILED\x1b[0m" in shown
    code, shown = at_terminal(cli, "list")
    assert "\x1b[31mFAILED\x1b[0m" in shown and "\x1b[32mSUCCEEDED\x1b[0m" in shown
    plain = re.sub(r"\x1b\[\d*m", "", shown).replace("\r", "").splitlines()
    assert len({line.index("local") for line in plain[1:]}) == 1, "columns stay in line"
    assert "\x1b[31mFAILED\x1b[0m" in at_terminal(cli, "status")[1]
    for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for words in (["list"], ["status"], ["run", "--", "true"]):
            assert "\x1b[3" not in at_terminal(cli, *words, **environ)[1]
    for words in (["list"], ["status"], ["run", "--", "true"]):
        result = cli(*words)
        assert "\x1b" not in result.out + result.err


def test_an_empty_no_color_counts_as_none(cli: Cli) -> None:
    assert "\x1b[32m" in at_terminal(cli, "run", "--", "true", NO_COLOR="")[1]


def test_progress_while_much_code_is_copied(cli: Cli) -> None:
    os.mkdir(os.path.join(cli.project, "data"))
    for index in range(6000):
        with open(os.path.join(cli.project, "data", str(index)), "w") as file:
            file.write("file %d" % index)
    code, shown = at_terminal(cli, "run", "--", "true", start=("-c", IMPATIENT))
    assert code == 0
    steps = re.findall(r"snapshot: (\d+) of 6000 files", shown)
    assert steps == sorted(steps, key=int) and steps
    assert shown.rindex("\r\x1b[K") > shown.rindex("snapshot: "), "the line is taken away"
    assert "snapshot" not in cli.ok("run", "--", "true").err


def test_no_progress_where_there_is_little(cli: Cli) -> None:
    """It is told of what takes longer than a moment, as it may on a busy machine: three times in a row never."""
    cli.write("train.py", "")
    assert any("snapshot" not in at_terminal(cli, "run", "--", "true")[1] for _ in range(3))


def test_ctrl_c_typed_at_a_terminal(cli: Cli) -> None:
    """The terminal signals its whole foreground group, and only the follower belongs to it."""
    pid, screen = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(cli.project)
        script = (
            "trap 'touch outputs/told; exit 1' TERM; trap 'touch outputs/no' INT; touch outputs/up; sleep 60 & wait"
        )
        os.execve(sys.executable, [sys.executable, "-m", "worldsize", "run", "--", "sh", "-c", script], cli.environ)
    runs = os.path.join(cli.home, "runs")
    wait_for(lambda: os.path.isdir(runs) and [name for name in os.listdir(runs) if name[0] == "2"])
    (run,) = [name for name in os.listdir(runs) if name[0] == "2"]
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "up")))
    os.write(screen, b"\x03")
    shown = b""
    try:
        while data := os.read(screen, 65536):
            shown += data
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, shown
    os.close(screen)
    assert sorted(os.listdir(cli.path(run, "outputs"))) == ["told", "up"]
    assert cli.status(run)["state"] == "CANCELLED"


def completions(cli: Cli, line: str) -> list[str]:
    """What the shell is offered for the word that `line` ends in, over argcomplete's own protocol."""
    offered = os.path.join(cli.root, "offered")
    environ = {
        **cli.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": offered,
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "worldsize"], cwd=cli.project, env=environ, check=False, timeout=30)
    with open(offered) as file:
        return sorted(word.strip() for word in file.read().split("\n") if word.strip())


def test_completion_of_verbs_options_and_runs(cli: Cli) -> None:
    assert completions(cli, "worldsize s") == ["schema", "selftest", "shell", "simulate", "stacks", "status", "submit"]
    assert {"run", "logs", "init"} <= set(completions(cli, "worldsize "))
    assert completions(cli, "worldsize list --st") == ["--state"]
    assert completions(cli, "worldsize logs --fold ") == ["numbers", "off", "same"]
    assert completions(cli, "worldsize status 2") == []
    first, second = cli.run("--", "true"), cli.run("--", "true")
    assert completions(cli, "worldsize status 2") == sorted([first, second])
    assert completions(cli, "worldsize logs --rank 0 " + first[:-1]) == [first]


def test_completion_of_values(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.lab]\ntype = "slurm"\n')
    cli.write("job.yml", "command: x\n")
    cli.write("notes.txt", "")
    assert completions(cli, "worldsize run --compute ") == ["lab", "local"]
    assert completions(cli, "worldsize list --state F") == ["FAILED"]
    assert completions(cli, "worldsize run j") == ["job.yml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script(cli: Cli, shell: str) -> None:
    text = cli.ok("completion", shell).out
    assert "worldsize" in text and "ARGCOMPLETE" in text
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr
