"""`worldsize exec` takes the environment of a rank, and of nothing that only looks like one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from driver import Cli, wait_for
from security.people import STRANGER, Machine, Person

SLEEP = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"


@pytest.fixture
def run(victim: Cli) -> str:
    victim.write("sleep.py", SLEEP)
    run = victim.submit("--", "python", "sleep.py")
    wait_for(lambda: victim.has_begun(run))
    return run


def end(victim: Cli, run: str) -> None:
    Path(victim.path(run, "code", "go")).touch()
    victim.ok("wait", run)


def forged(run: str, directory: str) -> dict[str, str]:
    return {
        "WORLDSIZE_RUN_ID": run,
        "WORLDSIZE_RANK": "0",
        "WORLDSIZE_NODE_RANK": "0",
        "SLURM_STEP_ID": "9",  # of several, the latest step counts
        "LD_PRELOAD": directory + "/evil.so",
        "PATH": directory,
        "CANARY": "forged",
    }


def test_another_users_process_with_the_runs_id(victim: Cli, attacker: Person, run: str) -> None:
    """Found by review: root's exec ran with the LD_PRELOAD and PATH of anybody who started such a process."""
    waiting = "import sys; print('up', flush=True); sys.stdin.read(); import time; time.sleep(600)"
    with attacker.start_python(waiting, **forged(run, attacker.project)) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            result = victim("exec", run, "--", "env")
        finally:
            process.kill()
    end(victim, run)
    assert result.code == 0 and "CANARY" not in result.out and "evil.so" not in result.out + result.err


def test_a_process_that_gives_its_files_to_root(victim: Cli, attacker: Person, run: str) -> None:
    """Found by review: one that wants no core dumps has root's files in /proc, whoever it belongs to."""
    waiting = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('up', flush=True); time.sleep(600)"
    with attacker.start_python(waiting, **forged(run, attacker.project)) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            assert os.stat("/proc/%d/environ" % process.pid).st_uid == 0
            result = victim("exec", run, "--", "env")
            end(victim, run)
            victim.ok("cancel", run)
            assert process.poll() is None
        finally:
            process.kill()
    assert result.code == 0 and "CANARY" not in result.out and "evil.so" not in result.out + result.err


def test_a_program_with_the_set_user_id_bit(victim: Cli, attacker: Person, run: str, machine: Machine) -> None:
    """It is the victim's by its uid, and its environment is its starter's."""
    owner = victim.uid if isinstance(victim, Person) else 0
    program = machine.directory(0o755) + "/sleep"
    subprocess.run(["cp", "/bin/sleep", program], check=True)
    os.chown(program, owner, owner)
    os.chmod(program, 0o4755)
    environ = forged(run, attacker.project)
    process = subprocess.Popen([program, "600"], env=environ, user=attacker.uid, group=attacker.uid, extra_groups=())
    try:
        wait_for(lambda: os.stat("/proc/%d" % process.pid).st_uid in (owner, 0))
        result = victim("exec", run, "--", "env")
    finally:
        process.kill()
        process.wait()
    end(victim, run)
    assert result.code == 0 and "CANARY" not in result.out and attacker.project not in result.out


def test_what_is_left_of_a_run_is_ended_among_ones_own_processes(victim: Cli, machine: Machine, run: str) -> None:
    """A process of another user's that carries the id is that user's."""
    other = machine.person(STRANGER if isinstance(victim, Person) else 61003)
    with other.start_python("print('up', flush=True); import time; time.sleep(600)", WORLDSIZE_RUN_ID=run) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            end(victim, run)
            victim.ok("cancel", run)
            assert process.poll() is None
        finally:
            process.kill()
    other.close()
