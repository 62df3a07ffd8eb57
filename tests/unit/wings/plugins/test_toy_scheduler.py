"""The example of a batch scheduler, and its compute: what real schedulers do, and computes must stand."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import wait_for
from other_packages import install_project

from worldsize.compute.base import Submission
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths

pytestmark = pytest.mark.heavy

PROJECT = Path(__file__).resolve().parents[4] / "examples" / "toy-scheduler"
RUN = "20261121-103158-417k3f"
HOLD = "touch %s/up-$TOY_JOBID; until test -e %s/go; do sleep 0.02; done; exit ${1:-0}\n"


class Toy:
    """The programs, with a spool of their own, and the compute that uses them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        install_project(PROJECT, root / "site")
        path = os.pathsep.join((str(root / "site" / "bin"), os.environ["PATH"]))
        self.environ = {"HOME": str(root), "PATH": path, "TOY_SPOOL": str(root / "spool"), "TOY_NODES": "2"}
        self.hold = HOLD % (root, root)

    def call(self, *words: str, script: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        environ = {**self.environ, **environ}
        return subprocess.run(words, input=script, env=environ, capture_output=True, text=True, timeout=60)

    def submit(self, script: str, *words: str, **environ: str) -> str:
        done = self.call("tsub", *words, script=script, **environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def jobs(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call("tstat", *words).stdout)["jobs"]
        return found

    def wait_for(self, job: str, state: str) -> dict[str, Any]:
        wait_for(lambda: self.jobs()[job]["state"] == state)
        found: dict[str, Any] = self.jobs()[job]
        return found

    def go(self) -> None:
        (self.root / "go").touch()

    def compute(self, **environ: str) -> Any:
        module = importlib.import_module("toy_scheduler.compute")
        return module.open_compute(ComputeSettings("toybox", "toy"), "", {**self.environ, **environ})

    def submission(self, compute: Any, run: str = RUN) -> Submission:
        (self.root / run).mkdir(mode=0o700, exist_ok=True)
        plan = Plan(run, "train", "toybox", 1.0, 0, node_major_layout(2, 1), ("true",), {})
        submission: Submission = compute.render(Job("true"), plan, RunPaths(str(self.root / run)), dict)
        return submission


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    made = Toy(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield made
    made.go()
    wait_for(lambda: all(job["state"] == "E" for job in made.jobs().values()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "toy_scheduler"]:
        del sys.modules[name]


def handle(job: str, run: str = RUN) -> dict[str, str]:
    return {"type": "toy", "job": job, "run_id": run}


# the scheduler


@pytest.mark.exhaustive
def test_jobs_take_turns_and_report_their_codes(toy: Toy) -> None:
    first = toy.submit(toy.hold, "--nodes", "1")
    second = toy.submit("exit 3", "--nodes", "2")
    third = toy.submit("kill -9 $$", "--nodes", "1")
    toy.wait_for(first, "R")
    wait_for(lambda: toy.jobs()[second]["comment"] == "waits for 2 nodes, of which 1 are free")
    assert [toy.jobs()[job]["state"] for job in (first, second, third)] == ["R", "Q", "Q"]
    toy.go()
    assert [toy.wait_for(job, "E")["code"] for job in (first, second, third)] == [0, 3, 137]


@pytest.mark.exhaustive
def test_a_job_outlives_the_shell_that_submitted_it(toy: Toy) -> None:
    script = toy.root / "script"
    script.write_text(toy.hold)
    shell = subprocess.Popen(
        ["sh", "-c", "tsub < %s; sleep 60" % script], env=toy.environ, start_new_session=True, stdout=subprocess.DEVNULL
    )
    wait_for(lambda: (toy.root / "up-1").exists())
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    assert toy.jobs()["1"]["state"] == "R"


@pytest.mark.exhaustive
def test_dependencies(toy: Toy) -> None:
    fails = toy.submit("%s exit 4" % toy.hold.replace("exit ${1:-0}", ""))
    never, later = toy.submit("true", "--after", fails), toy.submit("true", "--after-any", fails)
    wait_for(lambda: toy.jobs()[later]["comment"] == "waits for the end of other jobs")
    toy.go()
    assert toy.wait_for(later, "E")["code"] == 0
    assert (toy.wait_for(never, "E")["why"], toy.jobs()[never]["code"]) == ("dependency", 1)
    assert toy.call("tsub", "--after", "99", script="true").stderr == "Unknown Job Id 99\n"


@pytest.mark.exhaustive
def test_the_end_of_a_job_is_a_request_and_then_a_kill(toy: Toy) -> None:
    script = "trap : TERM; touch %s/up; while :; do sleep 0.05; done" % toy.root
    for words, why in ((("--time", "1"), "time"), ((), "deleted")):
        job = toy.submit(script, *words, TOY_KILL_DELAY="1")
        wait_for((toy.root / "up").exists)
        if not words:
            assert toy.call("tdel", job).returncode == 0
        ended = toy.wait_for(job, "E")
        assert (ended["code"], ended["why"]) == (137, why)
        (toy.root / "up").unlink()


@pytest.mark.exhaustive
def test_a_cancel_that_is_too_late_and_an_id_that_is_forgotten(toy: Toy) -> None:
    job = toy.submit("true")
    toy.wait_for(job, "E")
    late = toy.call("tdel", job)
    assert (late.returncode, late.stderr) == (35, "Job has finished 1\n")
    wait_for(lambda: toy.call("tstat", job, TOY_KEEP="0").returncode == 153)
    assert toy.call("tdel", job).returncode == 153
    assert toy.submit("true") == "2"


def pid_of_job(toy: Toy, job: str) -> int:
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")[:-1]
            if words[-2:] == [b"toy_scheduler.job", job.encode()] and str(toy.root) in os.fsdecode(
                (directory / "environ").read_bytes()
            ):
                return int(directory.name)
        except OSError:
            continue  # it has ended, or is another user's
    raise AssertionError("job %s has no process" % job)


@pytest.mark.exhaustive
def test_a_job_whose_process_was_killed_has_ended(toy: Toy) -> None:
    job = toy.submit(toy.hold)
    toy.wait_for(job, "R")
    os.kill(pid_of_job(toy, job), signal.SIGKILL)
    assert toy.wait_for(job, "E")["why"] == "its process was killed"
    toy.go()


# the compute


def test_a_run_is_one_job_whichever_answers_are_lost(toy: Toy) -> None:
    """The third request creates nothing, and the sixth creates the job of the third run."""
    compute = toy.compute(TOY_TROUBLE="3")
    for run in ("a", "b", "c"):
        (made,) = compute.submit([toy.submission(compute, run)])
        assert list(toy.jobs("--name", run)) == [made["job"]]
    assert (toy.root / "spool" / "requests").stat().st_size == 7


def test_a_scheduler_that_is_away_is_reported(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = toy.compute(TOY_TROUBLE="1")
    monkeypatch.setattr("worldsize.compute.exactly_once.PATIENCE", 0.0)
    monkeypatch.setattr("toy_scheduler.compute.MOMENT", 0.0)
    with pytest.raises(SubmitAgain, match="cannot connect to server toy"):
        compute.submit([toy.submission(compute)])
    (seen,) = compute.observe([handle("1")])
    assert (seen.phase, seen.message) == ("unknown", "the scheduler does not answer: cannot connect to server toy")
    assert compute.observe([]) == [] and toy.jobs() == {}


def test_a_second_job_of_a_run_starts_nothing(toy: Toy) -> None:
    submission = toy.submission(toy.compute())
    os.symlink("99", toy.root / RUN / "job")
    second = toy.submit(submission.preview)
    assert toy.wait_for(second, "E")["code"] == 1
    assert not (toy.root / RUN / "attempt-0").exists()


def test_what_is_observed(toy: Toy) -> None:
    compute = toy.compute()
    job = toy.submit(toy.hold, "--name", RUN)
    toy.wait_for(job, "R")
    running, other, unknown = compute.observe([handle(job), handle(job, "another"), handle("99")])
    assert (running.phase, running.over) == ("running", False) and running.started
    assert [each.phase for each in (other, unknown)] == ["absent", "absent"]
    toy.go()
    toy.wait_for(job, "E")
    (ended,) = compute.observe([handle(job)])
    assert (ended.phase, ended.code, ended.over) == ("ended", 0, True)
    (seen,) = toy.compute(PATH=os.environ["PATH"]).observe([handle(job)])
    assert seen.phase == "unknown" and "tstat" in seen.message


def test_only_jobs_of_the_run_are_cancelled_and_late_is_harmless(toy: Toy) -> None:
    compute = toy.compute()
    job = toy.submit(toy.hold, "--name", RUN)
    toy.wait_for(job, "R")
    compute.cancel([handle(job, "another"), handle("99")], now=True)
    assert toy.jobs()[job]["state"] == "R" and compute.end_remains(handle(job, "another")) == 0
    assert compute.end_remains(handle(job)) == 1
    assert toy.wait_for(job, "E")["code"] == 137
    compute.cancel([handle(job)])
    assert compute.end_remains(handle(job)) == 0


def test_an_array_is_all_of_its_elements_or_none(toy: Toy) -> None:
    compute = toy.compute()
    first = toy.submission(compute)
    second = first._replace(plan=first.plan._replace(run_id="b"))
    broken = compute.render(Job("true"), first.plan._replace(nodes=node_major_layout(3, 1)), first.paths, dict)
    toy.hold_nodes = toy.submit(toy.hold, "--nodes", "2")  # type: ignore[attr-defined]
    with pytest.raises(SubmitRejected, match="3 nodes are asked for, and there are 2"):
        compute.submit([broken, second])
    assert [job["state"] for job in toy.jobs().values() if job["name"] == RUN] == []
    assert len(compute.submit([first, second])) == 2


def test_the_compute_is_as_short_as_its_page_says() -> None:
    assert len((PROJECT / "toy_scheduler" / "compute.py").read_text().splitlines()) <= 150
