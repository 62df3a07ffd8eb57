"""run and its follower: who may leave, what then goes on, and what ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from driver import Cli, unfolded, wait_for

PATIENT = "trap '' TERM; touch outputs/up-$RANK; while :; do sleep 0.1; done"
WAITING = "touch outputs/up-$RANK; while ! test -e outputs/go; do sleep 0.05; done; echo gone on"


def begin(cli: Cli, command: str, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """A followed run of two nodes, both ranks up: the follower and the run's id."""
    process = cli.start("run", *words, "-w", "2x1", "--", "sh", "-c", command)
    return process, await_run(cli)


def await_run(cli: Cli) -> str:
    """The id of the only run, once both its ranks are up."""
    runs = os.path.join(cli.home, "runs")
    wait_for(lambda: os.path.isdir(runs) and [name for name in os.listdir(runs) if name[0] == "2"])
    (run,) = [name for name in os.listdir(runs) if name[0] == "2"]
    await_ranks(cli, run)
    return run


def await_ranks(cli: Cli, run: str) -> None:
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))


def go_on(cli: Cli, run: str) -> None:
    open(cli.path(run, "outputs", "go"), "w").close()


def end(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out.decode(), err.decode()


def test_ctrl_c_cancels(cli: Cli) -> None:
    process, run = begin(cli, "touch outputs/up-$RANK; sleep 60")
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130, err
    assert "cancelling" in err and "CANCELLED" in err and "Traceback" not in err
    assert cli.status(run)["state"] == "CANCELLED"
    assert cli.status(run)["exit_code"] == 130


@pytest.mark.timing
def test_a_second_ctrl_c_ends_at_once_what_ignores_term(cli: Cli) -> None:
    process, run = begin(cli, PATIENT, "--set", "grace=60")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: os.path.exists(cli.path(run, "cancel.json")))
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130, err
    assert time.monotonic() - began < 25
    assert cli.status(run)["state"] == "CANCELLED"


def test_one_ctrl_c_gives_the_grace_that_the_job_asks_for(cli: Cli) -> None:
    command = (
        "trap 'sleep 0.5; touch outputs/saved-$RANK; exit 0' TERM; touch outputs/up-$RANK; while :; do sleep 0.1; done"
    )
    process, run = begin(cli, command, "--set", "grace=60")
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 130
    assert os.path.exists(cli.path(run, "outputs", "saved-0")) and os.path.exists(cli.path(run, "outputs", "saved-1"))


def test_grace_is_the_jobs(cli: Cli) -> None:
    cli.write("worldsize.toml", "[compute.local]\ngrace = 60\n")
    process, run = begin(cli, PATIENT, "--set", "grace=0.5")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 130
    assert 0.4 < time.monotonic() - began < 25
    assert cli.status(run)["state"] == "CANCELLED"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGQUIT, 0), (signal.SIGHUP, 0), (signal.SIGTERM, 143)])
def test_leaving_lets_the_run_go_on(cli: Cli, number: int, code: int) -> None:
    process, run = begin(cli, WAITING)
    process.send_signal(number)
    ended, _, err = end(process)
    assert ended == code, err
    assert "worldsize logs -f " + run in err
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    go_on(cli, run)
    assert cli("wait", run).code == 0
    assert cli.ok("logs", run).out == "×2: gone on\n"


def test_a_killed_follower_leaves_the_run_and_others_attach(cli: Cli) -> None:
    both = "until test -e outputs/on-0 && test -e outputs/on-1; do sleep 0.05; done"
    process, run = begin(cli, WAITING + "; touch outputs/on-$RANK; %s; exit 4" % both)
    process.kill()
    process.communicate()
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    waiting = cli.start("wait", run)
    following = cli.start("logs", "-f", run)
    time.sleep(0.3)
    assert waiting.poll() is None and following.poll() is None
    go_on(cli, run)
    assert end(waiting)[0] == 4
    code, out, _ = end(following)
    assert (code, unfolded(out.splitlines())) == (4, ["gone on"] * 2)


def test_the_whole_terminal_going_away_leaves_the_run(cli: Cli) -> None:
    """The signal that a closing terminal sends to its foreground group reaches nothing of the run."""
    words = ["run", "-w", "2x1", "--", "sh", "-c", WAITING]
    process = subprocess.Popen(
        ["env", "--default-signal=HUP", sys.executable, "-m", "worldsize", *words],  # whoever runs us may have nohup
        cwd=cli.project,
        env=cli.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    run = await_run(cli)
    os.killpg(process.pid, signal.SIGHUP)
    process.wait(timeout=30)
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    go_on(cli, run)
    assert cli("wait", run).code == 0


def test_nohup_goes_on_following(cli: Cli) -> None:
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "worldsize", "run", "-w", "2x1", "--", "sh", "-c", WAITING],
        cwd=cli.project,
        env=cli.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run = await_run(cli)
    process.send_signal(signal.SIGHUP)
    go_on(cli, run)
    code, out, _ = end(process)
    assert (code, unfolded(out.splitlines())) == (0, ["gone on"] * 2)


def test_detach_returns_at_once(cli: Cli) -> None:
    began = time.monotonic()
    result = cli.ok("run", "--detach", "-w", "2x1", "--", "sh", "-c", WAITING)
    assert time.monotonic() - began < 30
    run = result.out.strip()
    await_ranks(cli, run)
    go_on(cli, run)
    assert cli("wait", run).code == 0


def test_a_reader_that_leaves_lets_the_run_go_on(cli: Cli) -> None:
    loop = "until test -e outputs/go; do i=$((i+1)); echo $i; sleep 0.05; done"
    script = "exec 3>&1; { worldsize run -- sh -c '%s'; echo $? >&3; } | head -1" % loop
    result = subprocess.run(
        ["bash", "-c", 'worldsize() { "%s" -m worldsize "$@"; }; %s' % (sys.executable, script)],
        cwd=cli.project,
        env=cli.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(result.stdout.split("\n")) == ["", "0:0: 1", "141"], result
    assert "Traceback" not in result.stderr and "continues" in result.stderr
    go_on(cli, cli.latest())
    assert cli("wait").code == 0


COPYING = """
import os, sys, time
from worldsize.snapshot import snapshot

take = snapshot.take_snapshot

def hold(number, total):
    if total and number == total // 2:
        os.write(1, b"here\\n")
        time.sleep(60)

snapshot.take_snapshot = lambda *words, tick, **more: take(*words, tick=hold, **more)
from worldsize.cli.main import run
run()
"""
"""The command line, held up in the midst of copying the code."""


def held_up(cli: Cli, program: str, *words: str) -> subprocess.Popen[bytes]:
    """The command line that `program` holds up, once it is."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=cli.project,
        env=cli.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"here\n"
    return process


def while_the_code_is_copied(cli: Cli) -> tuple[subprocess.Popen[bytes], str]:
    """A command that prepares a run, and the run's id."""
    for index in range(10):
        cli.write("data/%d" % index, str(index))
    process = held_up(cli, COPYING, "run", "--", "sh", "-c", "true")
    (run,) = [name for name in os.listdir(os.path.join(cli.home, "runs")) if name[0] == "2"]
    return process, run


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_command_killed_while_it_prepares_a_run_leaves_it_final(cli: Cli, cancelled: bool) -> None:
    process, run = while_the_code_is_copied(cli)
    wait_for(lambda: os.path.islink(cli.path(run, "preparing")))
    process.send_signal(signal.SIGSTOP)
    assert cli.status(run)["state"] == "PREPARING"
    if cancelled:
        cli.ok("cancel", run)
    process.kill()
    process.communicate()
    status = cli.status(run)
    if cancelled:
        assert (status["state"], status["exit_code"]) == ("CANCELLED", 130)
    else:
        assert (status["state"], status["exit_code"]) == ("LOST", 1)
        assert "interrupted while it was being prepared" in status["message"]
    assert cli("wait", run).code == status["exit_code"]


def test_nothing_of_the_preparation_stays(cli: Cli) -> None:
    assert not os.path.lexists(cli.path(cli.run("--", "true"), "preparing"))


def test_ctrl_c_while_the_code_is_copied_leaves_nothing(cli: Cli) -> None:
    process, run = while_the_code_is_copied(cli)
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130 and err == "worldsize: interrupted\n"
    assert not os.path.exists(cli.path(run))


HELD = """
import importlib.abc, os, sys, time

held = sys.argv.pop(1)

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == held:
            os.write(1, b"here\\n")
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and not os.path.exists("go"):
                time.sleep(0.02)

sys.meta_path.insert(0, Slow())
sys.modules.pop(held, None)
from worldsize.cli.main import run
run()
"""
"""The command line, held up where it imports a module."""


def test_ctrl_c_right_after_exec_has_begun_ends_it_in_order(cli: Cli) -> None:
    """Held up before it reads what the nodes say: the command is told to end, and what it said meanwhile is shown."""
    run = cli.submit("--", "sleep", "60")
    wait_for(lambda: cli.has_begun(run))
    command = "trap 'echo told; exit 3' TERM; echo up; touch outputs/up; sleep 60 & wait"
    words = ("worldsize.wings.node_commands.node_output", "exec", "--", "sh", "-c", command)
    process = held_up(cli, HELD, *words)
    wait_for(lambda: os.path.exists(cli.path(run, "code", "outputs", "up")))
    process.send_signal(signal.SIGINT)
    cli.write("go", "")
    code, out, err = end(process)
    assert (code, out) == (130, "0: up\n0: told\n") and "stopping it" in err
    cli.ok("cancel", run, "--now")


@pytest.mark.parametrize(
    "module", ["argparse", "worldsize.errors", "worldsize.cli.run.run", "worldsize.service.submission.submit"]
)
def test_ctrl_c_while_it_is_still_starting_is_no_traceback(cli: Cli, module: str) -> None:
    process = held_up(cli, HELD, module, "run", "--", "true")
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert (code, err) in ((130, ""), (130, "worldsize: interrupted\n"))


def test_ctrl_c_while_what_follows_a_run_is_loaded_cancels_it(cli: Cli) -> None:
    """The run has been submitted by then, and starts meanwhile."""
    process = held_up(cli, HELD, "worldsize.service.runs.run", "run", "--", "sleep", "600")
    process.send_signal(signal.SIGINT)
    cli.write("go", "")
    code, _, err = end(process)
    (run,) = [each["id"] for each in cli.json("list")]
    assert code == 130 and "cancelling %s" % run in err and cli.status(run)["state"] == "CANCELLED"


def test_logs_can_be_left_too(cli: Cli) -> None:
    run = cli.submit("-w", "2x1", "--", "sh", "-c", "echo up; " + WAITING)
    await_ranks(cli, run)
    following = cli.start("logs", "-f")
    assert following.stdout is not None and following.stdout.readline().endswith(b"up\n")
    following.send_signal(signal.SIGINT)
    code, _, err = end(following)
    assert code == 130 and "Traceback" not in err
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    cli.ok("cancel", run, "--now")
    assert cli("wait", run).code == 130
