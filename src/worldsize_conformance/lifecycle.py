"""Tests of how runs end, on any compute: codes, first failures, cancels, limits, and the guarantees of a compute
itself."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.service.submission.plan_job import plan_at, plan_job
from worldsize.service.submission.submit import start
from worldsize_conformance.driver import unfolded, wait_for
from worldsize_conformance.place import Place


def running(place: Place, command: str = "sleep 120", before: str = "true", **keys: Any) -> str:
    """Submit a job of two ranks, each on its own node, which execute the shell commands `before` and then `command`.
    Return the run's id once both ranks have executed `before`."""
    place.job("; ".join((before, place.touch("up-$RANK"), command)), "2x1", **keys)
    run = place.submit("job.yml")
    wait_for(lambda: place.has_outputs(run, "up-0", "up-1"), place.target.patience)
    return run


def request(place: Place, **keys: Any) -> SubmissionRequest:
    job = Job(command="true", compute=place.target.name, **keys)
    return SubmissionRequest(job, load_config(place.project, place.environ), None, place.environ, place.project)


# logs


def test_each_ranks_own_log_in_its_own_order(place: Place) -> None:
    place.job("for i in 1 2 3; do echo out $i $RANK; echo err $i $RANK >&2; done", "2x2")
    run = place.run("job.yml")
    for rank in range(4):
        lines = ["%s %d %d" % (stream, i, rank) for i in (1, 2, 3) for stream in ("out", "err")]
        assert place.ok("logs", run, "--rank", str(rank), "--raw").out.splitlines() == lines
    assert len(place.ok("logs", run, "--fold", "off").lines) == 24


def test_bytes_are_kept_and_last_words_arrive(place: Place) -> None:
    place.require_common_outputs()
    both = "touch outputs/up-$RANK; until test -e outputs/up-0 && test -e outputs/up-1; do sleep 0.02; done"
    place.job(r"printf 'a\377\000\r\033[1mno newline'; %s; kill -9 $$" % both, "2x1")
    run = place.run("job.yml", code=137)
    for rank in (0, 1):
        with open(RunPaths(place.path(run)).rank_log(rank), "rb") as file:
            assert file.read() == b"a\xff\0\r\x1b[1mno newline"


def test_logs_can_be_followed_while_it_runs(place: Place) -> None:
    place.job("echo early; %s; echo late" % place.gate("go"), "2x1")
    run = place.submit("job.yml")
    following = place.start("logs", "-f", run, "--rank", "1")
    assert following.stdout is not None
    assert following.stdout.readline() == b"1:1: early\n"
    place.open_gate(run, "go")
    assert following.communicate(timeout=place.target.patience)[0] == b"1:1: late\n"
    assert following.returncode == 0


# ends


def cause_of(place: Place, run: str) -> tuple[str, str] | None:
    """Return the id and the standing of the cause of the run's end that `worldsize why` reports; None if it has nothing
    to explain."""
    cause = place.json("why", run)["cause"]
    return cause and (cause["id"], cause["standing"])


@pytest.mark.parametrize(
    ("command", "code", "reason", "cause"),
    [
        ("true", 0, None, None),
        ("exit 3", 3, "EXIT_CODE", ("unknown", "unknown")),
        ("kill -SEGV $$", 139, "SIGNAL", ("segmentation-fault", "established")),
        ("exec no-such-program", 127, "EXIT_CODE", ("program-missing", "supported")),
    ],
    ids=["true-0-None", "exit 3-3-EXIT_CODE", "kill -SEGV $$-139-SIGNAL", "exec no-such-program-127-EXIT_CODE"],
)
def test_the_exit_code_comes_through(
    place: Place, command: str, code: int, reason: str | None, cause: tuple[str, str] | None
) -> None:
    place.job(command, "2x1")
    run = place.run("job.yml", code=code)
    status = place.status(run)
    assert (status["exit_code"], status["reason"]) == (code, reason)
    assert status["state"] == ("FAILED" if code else "SUCCEEDED")
    assert status["created"] <= status["started"] <= status["ended"]
    assert cause_of(place, run) == cause


def test_the_first_failure_ends_all_and_is_named(place: Place) -> None:
    place.job("touch outputs/up-$RANK; if [ $RANK = 2 ]; then exit 7; fi; setsid sleep 120 & sleep 120", "2x2")
    began = time.monotonic()
    run = place.run("job.yml", code=7)
    assert time.monotonic() - began < place.target.patience
    failure = place.status(run)["failure"]
    assert (failure["rank"], failure["node_rank"], failure["code"], failure["reason"]) == (2, 1, 7, "EXIT_CODE")
    records = [json.loads(place.read(run, "attempt-0", "exit", "node-%04d.json" % node)) for node in (0, 1)]
    assert [record["code"] for record in records] == [7, 7]
    stopped = {rank["rank"]: rank["stopped"] for record in records for rank in record["ranks"]}
    assert stopped == {0: True, 1: True, 2: False, 3: True}


def test_a_rank_that_ends_early_and_well_is_waited_for(place: Place) -> None:
    place.job("[ $RANK = 0 ] || sleep 0.7; echo $RANK done", "2x1")
    run = place.run("job.yml")
    assert sorted(place.ok("logs", run).lines) == ["0:0: 0 done", "1:1: 1 done"]


def test_an_exception_is_kept_as_data(place: Place) -> None:
    place.write("train.py", "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('bad batch')\n")
    place.write("wait.sh", "")
    run = place.run("-w", "2x1", "--", "python", "train.py", code=1)
    exception = place.status(run)["failure"]["exception"]
    assert (exception["type"], exception["message"]) == ("ValueError", "bad batch")
    assert exception["frames"][-1]["line"] == 3
    told = place.json("why", run)
    assert cause_of(place, run) == ("exception", "established")
    assert (told["cause"]["rank"], told["chain"][0]["file"], told["chain"][0]["line"]) == (1, "train.py", 3)
    events = place.json("events", run)
    assert [each["time"] for each in events] == sorted(each["time"] for each in events)
    known = {(each["source"], each["event"]) for each in events}
    nodes = {
        ("node %d" % node, event) for node in (0, 1) for event in ("agent_started", "ranks_started", "rank_exited")
    }
    assert known >= {("client", "created"), ("client", "settled"), ("node 1", "exception"), *nodes}


def test_the_time_limit(place: Place) -> None:
    place.job("sleep 120", "2x1", limits={"timeout": 1}, grace=0.5)
    status = place.wait_for_end(place.submit("job.yml"))
    assert (status["state"], status["reason"]) == ("FAILED", "TIME_LIMIT")
    assert status["exit_code"] not in (0, None) and "limit" in status["message"]
    assert cause_of(place, status["id"]) == ("time-limit", "established")


def test_grace_before_the_end(place: Place) -> None:
    trap = "trap '%s; exit 0' TERM" % place.touch("saved-$RANK")
    run = running(place, "while :; do sleep 0.05; done", trap)
    place.ok("cancel", run)
    ended = place.wait_for_end(run)
    assert ended["state"] == "CANCELLED", ended
    assert place.has_outputs(run, "saved-0", "saved-1")


# cancel


def test_cancel_while_it_runs(place: Place) -> None:
    run = running(place)
    place.ok("cancel", run)
    status = place.wait_for_end(run)
    assert (status["state"], status["reason"], status["exit_code"]) == ("CANCELLED", "CANCELLED_BY_USER", 130)
    assert cause_of(place, run) == ("cancelled", "established")


def test_cancel_what_ignores_it_at_once(place: Place) -> None:
    run = running(place, "while :; do sleep 0.1; done", "trap '' TERM", grace=60)
    place.ok("cancel", run)
    place.ok("cancel", run, "--now")
    assert place.wait_for_end(run)["state"] == "CANCELLED"


def test_cancel_again_and_after_the_end(place: Place) -> None:
    run = running(place)
    for _ in range(3):
        place.ok("cancel", run)
    assert place.wait_for_end(run)["state"] == "CANCELLED"
    assert "already" in place.ok("cancel", run).err
    done = place.run("--", "true")
    place.ok("cancel", done)
    place.compute().cancel([place.handle(done)])
    place.compute().cancel([place.handle(done)], True)
    assert place.status(done)["state"] == "SUCCEEDED"


def test_cancel_before_it_is_submitted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a run that is cancelled while it is being prepared starts nothing."""
    wanted = request(place)
    monkeypatch.setenv("WORLDSIZE_HOME", wanted.environ["WORLDSIZE_HOME"])

    def cancel(paths: RunPaths) -> None:
        Run(paths, wanted.environ).cancel()

    paths = start(wanted, Progress(), cancel)
    status = Run(paths, wanted.environ).look()
    assert (status.state, status.exit_code) == ("CANCELLED", 130)
    assert not os.path.exists(paths.handle) and not os.listdir(paths.events_dir)


# the compute itself


def test_the_handle_names_the_run_and_is_plain_data(place: Place) -> None:
    run = place.run("--", "true")
    handle = place.handle(run)
    assert handle["type"] and run in json.dumps(handle)


def test_observing_many_at_once(place: Place) -> None:
    run = running(place)
    done = place.run("--", "true")
    compute = place.compute()
    wait_for(lambda: compute.observe([place.handle(done)])[0].phase in ("ended", "absent"), place.target.patience)
    seen = compute.observe([place.handle(done), place.handle(run), place.handle(done)])
    assert seen[1].phase == "running"
    assert seen[0].phase in ("ended", "absent") and seen[0] == seen[2]
    assert compute.observe([]) == []
    place.ok("cancel", run, "--now")
    assert place.wait_for_end(run)["state"] == "CANCELLED"


def test_absent_never_means_that_it_succeeded(place: Place) -> None:
    """Check that a run whose native job is unknown, and which left no record, is LOST, with a message."""
    run = place.run("--", "true")
    place.forget(run)
    for name in ("result.json", "attempt-0/exit/node-0000.json"):
        os.unlink(place.path(run, name))
    long_ago = time.time() - 10_000
    for folder, names, files in os.walk(place.path(run)):
        for name in ["", *names, *files]:
            os.utime(os.path.join(folder, name), (long_ago, long_ago), follow_symlinks=False)
    assert place.compute().observe([place.handle(run)])[0].phase == "absent"
    status = place.status(run)
    assert status["state"] == "LOST" and status["exit_code"] == 1 and status["message"]


def test_rendering_is_pure_and_checks_never_raise(place: Place) -> None:
    compute = place.compute()
    paths = RunPaths(os.path.join(place.root, "nowhere", "20261121-103158-417k3f"))
    prepared = plan_at(plan_job(request(place), 1.0), request(place), paths)
    assert (prepared.paths, prepared.plan.run_id) == (paths, paths.run_id)
    first, second = (compute.render(prepared.job, prepared.plan, paths, dict) for _ in range(2))
    assert first == second and first.preview
    assert all(result.level in ("error", "notice") for result in compute.check(prepared.job, prepared.plan))
    assert not os.path.exists(paths.root)
    assert compute.facts(prepared.job) == prepared.facts


def test_what_was_submitted_is_on_record(place: Place) -> None:
    run = place.run("-w", "2x1", "--", "echo", "hi")
    assert place.read(run, "submission.txt").strip()
    record = json.loads(place.read(run, "record.json"))
    assert record["job"]["compute"] == place.target.name and record["argv"][-2:] == ["echo", "hi"]
    assert json.loads(place.read(run, "plan.json"))["run_id"] == run


def test_several_runs_at_a_time(place: Place) -> None:
    runs = [place.submit("-w", "2x1", "--", "sh", "-c", "echo %d $MASTER_PORT" % index) for index in range(5)]
    lines = [place.ok("logs", run).out for run in runs if place.wait_for_end(run)["state"] == "SUCCEEDED"]
    assert [line.split()[1] for line in lines] == list("01234")


def test_again(place: Place) -> None:
    place.write("train.sh", "echo first\n")
    place.run("-w", "2x1", "--", "sh", "train.sh")
    place.write("train.sh", "echo second\n")
    assert unfolded(place.ok("rerun").lines) == ["first"] * 2
    assert place.status()["compute"] == place.target.name


# before the ranks


def test_setup_comes_first_and_what_it_exports_reaches_every_rank(place: Place) -> None:
    place.write("env.sh", "export COLOUR='deep blue'\n")
    place.write("bin/tool", "#!/bin/sh\necho a tool\n")
    os.chmod(os.path.join(place.project, "bin", "tool"), 0o755)
    setup = ["source env.sh", 'export PATH="$PWD/bin:$PATH" SHAPE="[1, 2]"', "echo said by setup"]
    place.job('echo "$COLOUR $SHAPE $(tool)"', "2x1", setup=setup, code=".")
    run = place.run("job.yml")
    assert place.ok("logs", run).out == "×2: deep blue [1, 2] a tool\n"
    assert "said by setup" in place.read(run, "batch.log")
    assert json.loads(place.read(run, "record.json"))["job"]["setup"] == setup


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"setup": ["true", "ls /no/such/place", "touch outputs/reached"]}, "ls /no/such/place"),
        ({"modules": ["no/such/module"]}, "no/such/module"),
    ],
    ids=["line", "module"],
)
def test_setup_that_fails_ends_the_run_and_is_named(place: Place, keys: Any, says: str) -> None:
    if "modules" in keys:
        place.require_modules()
    place.job("touch outputs/started", "2x1", code=".", **keys)
    result = place("run", "job.yml")
    status = place.status(place.latest())
    assert (status["state"], status["reason"]) == ("FAILED", "ENVIRONMENT"), (status, result)
    assert says in status["message"] and result.code == status["exit_code"] != 0
    assert not place.has_outputs(place.latest(), "started") and not place.has_outputs(place.latest(), "reached")


def test_modules_are_loaded(place: Place) -> None:
    place.require_modules()
    place.write("modules/colour/1.0", "#%Module\nsetenv COLOUR green\n")
    folder = os.path.join(place.project, "modules")
    module = "colour/1.0" if place.target.inherits else os.path.join(place.node_path(folder), "colour/1.0")
    place.job("echo $COLOUR", "2x1", code=".", modules=[module])
    result = place("run", "job.yml", MODULEPATH=folder)
    if result.code and "module: command not found" in place.read(place.latest(), "batch.log"):
        pytest.skip("its nodes have no modules")
    assert result.code == 0, result
    assert place.ok("logs").out == "×2: green\n"


def test_a_run_can_be_cancelled_while_it_is_set_up(place: Place) -> None:
    place.job("true", "2x1", code=".", setup=[place.touch("setting-up") + "; sleep 60"])
    run = place.submit("job.yml")
    wait_for(lambda: place.has_outputs(run, "setting-up"), place.target.patience)
    place.ok("cancel", run)
    ended = place.wait_for_end(run)
    assert ended["state"] == "CANCELLED", ended
