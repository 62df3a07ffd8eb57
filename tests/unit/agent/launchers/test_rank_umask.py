"""The umask of ranks, however they are started, and the mode of what is ours beside them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from worldsize.agent.launchers.base import find_launcher, umask_of
from worldsize.agent.launchers.rank_file import rank_lines
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.launchers.torchrun import torchrun_argv
from worldsize.agent.posix import processes
from worldsize.agent.startup.setup_script import environment_after_setup
from worldsize.common.atomic_files import open_log
from worldsize.common.umask import Umask, own_umask
from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.make_plan import make_plan

WORLD = RendezvousResult("127.0.0.1", 29871, (Host("here", 8),))


@pytest.fixture(autouse=True)
def _ours() -> Iterator[None]:
    """As an agent's."""
    with Umask(0o077):
        yield


def plan_of(launcher: str = "direct", **keys: object) -> Plan:
    said = {"environment": {}, "launcher": launcher, "umask": 0o077, "ranks_umask": 0o027, **keys}
    return Plan("run-7", "t", "lab", 1.5, 0, node_major_layout(1, 1), ("sh", "-c", "umask; touch made"), **said)


def paths_in(directory: Path) -> RunPaths:
    paths = RunPaths(str(directory))
    for each in paths.directories():
        os.makedirs(each, exist_ok=True)
    return paths


def mode(path: str | Path) -> str:
    return "%03o" % stat.S_IMODE(os.stat(path).st_mode)


def test_the_own_umask_is_told_and_stays() -> None:
    with Umask(0o026):
        assert (own_umask(), own_umask()) == (0o026, 0o026)
    assert own_umask() == 0o077


def test_none_changes_nothing() -> None:
    with Umask(None):
        assert own_umask() == 0o077
    assert own_umask() == 0o077


@pytest.mark.parametrize(("asked", "expected"), [(0o022, "644"), (0o002, "664"), (None, "600")])
def test_a_program_has_it_and_its_log_has_ours(tmp_path: Path, asked: int | None, expected: str) -> None:
    log, made = tmp_path / "log", tmp_path / "made"
    words = ("sh", "-c", 'touch "$0"; echo told; echo trouble >&2; cat', str(made))
    pid = processes.spawn("/bin/sh", words, {"PATH": os.defpath}, str(log), umask=asked)
    assert os.waitpid(pid, 0)[1] == 0
    assert (mode(made), mode(log), log.read_text()) == (expected, "600", "told\ntrouble\n")
    assert own_umask() == 0o077


def test_ours_is_back_where_nothing_could_be_started(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        processes.spawn(str(tmp_path / "none"), ("none",), {}, str(tmp_path / "log"), umask=0)
    with pytest.raises(FileNotFoundError):
        processes.spawn("/bin/sh", ("sh",), {}, str(tmp_path / "no directory" / "log"), umask=0)
    assert (own_umask(), len(os.listdir("/proc/self/fd"))) == (0o077, before)


STARTED_WITHOUT = """
import os, sys
from worldsize.agent.posix import processes
os.close(int(sys.argv[1]))
pid = processes.spawn("/bin/sh", ("sh", "-c", "cat; echo told; echo trouble >&2"), {}, sys.argv[2])
sys.exit(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_a_log_may_be_any_of_the_three_streams(tmp_path: Path, closed: str) -> None:
    """As that of an agent that was started without one of them."""
    log = tmp_path / "log"
    done = subprocess.run([sys.executable, "-c", STARTED_WITHOUT, closed, str(log)], timeout=60)
    assert (done.returncode, log.read_text()) == (0, "told\ntrouble\n")


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_launchers_have_ours_since_ranks_set_theirs(launcher: str) -> None:
    assert umask_of(plan_of(launcher)) is None


def test_other_programs_are_started_with_it() -> None:
    assert [umask_of(plan_of(launcher)) for launcher in ("direct", "deepspeed", "batch")] == [0o027] * 3


@pytest.mark.parametrize(("asked", "expected"), [(0o027, "640"), (None, "600")])
def test_what_torchrun_starts_has_it_and_its_log_has_ours(tmp_path: Path, asked: int | None, expected: str) -> None:
    paths, plan = paths_in(tmp_path), plan_of("torchrun", ranks_umask=asked)
    argv = torchrun_argv(plan, WORLD, plan.nodes[0], paths, {})
    words = argv[argv.index("--no-python") + 1 :]
    subprocess.run(words, env={"RANK": "0", "PATH": os.defpath}, cwd=tmp_path, check=True)
    assert (mode(tmp_path / "made"), mode(paths.rank_log(0))) == (expected, "600")


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_what_becomes_a_rank_by_a_file_has_it_and_its_log_has_ours(tmp_path: Path, launcher: str) -> None:
    paths, plan = paths_in(tmp_path), plan_of()
    (rank,) = find_launcher(plan.launcher).processes(
        NodeLaunch(plan, WORLD, plan.nodes[0], paths, {"PATH": os.defpath})
    )
    lines = rank_lines(rank, launcher, {}, plan.ranks_umask)
    subprocess.run(["sh", "-c", lines + 'exec "$@"', "sh", *plan.argv], cwd=tmp_path, check=True)
    assert (mode(tmp_path / "made"), mode(rank.log)) == ("640", "600")


@pytest.mark.parametrize(("asked", "expected"), [(0o027, "640"), (None, "600")])
def test_lines_of_setup_have_it_and_their_files_have_ours(tmp_path: Path, asked: int | None, expected: str) -> None:
    paths = paths_in(tmp_path)
    at = os.path.join(paths.root, "batch.log.step")
    plan = plan_of(ranks_umask=asked, setup=("touch made", "stat -c %%a '%s'" % at))
    assert environment_after_setup(plan, paths, {"PATH": os.environ["PATH"]}, lambda: False) is not None
    assert mode(os.path.join(paths.code, "made")) == expected
    assert Path(paths.batch_log).read_text() == "600\n"
    assert mode(paths.batch_log) == "600" and not os.path.exists(at)


def test_a_plan_of_before_has_none() -> None:
    value = json.loads(plan_of().to_json())
    del value["ranks_umask"]
    plan = Plan.from_json(json.dumps(value))
    assert (plan.umask, plan.ranks_umask, umask_of(plan)) == (0o077, None, None)


@pytest.mark.parametrize(
    ("share", "users", "ranks"),
    [
        (None, 0o022, 0o022),
        (None, 0o002, 0o002),
        (None, 0o077, 0o077),
        ("group", 0o022, 0o022),
        ("group", 0o002, 0o022),
        ("group", 0o077, 0o027),
        ("group", 0, 0o022),
    ],
)
def test_the_group_of_a_shared_run_reads_and_does_not_write(share: str | None, users: int, ranks: int) -> None:
    facts = ComputeFacts(None, 8, shared_host=True)
    plan = make_plan(Job("true", share=share), facts, "local", RunPaths("/runs/x"), 1.5, (), users)
    assert (plan.umask, plan.ranks_umask) == (0o027 if share else 0o077, ranks)


def test_a_log_is_appended_to_and_not_inherited(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = open_log(str(tmp_path / "log"))
        assert not os.get_inheritable(log)
        os.write(log, text)
        os.close(log)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
