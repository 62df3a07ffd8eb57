"""Ranks that wait for ever once others have ended with 0: found on any node, and nobody else is taken for one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from driver import Cli
from local_runs import LocalRun, LocalRuns, until

from worldsize.agent.posix import processes
from worldsize.state.exit_records import read_exits

pytestmark = pytest.mark.timing

WAITS = "echo waiting; exec sleep 60"


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def last(work: str, *ended: int) -> str:
    """These ranks (0 alone when none is named) end at once with 0; all others do `work`."""
    return "case $RANK in %s) exit 0;; esac; %s" % ("|".join(map(str, ended or (0,))), work)


def hung(run: LocalRun, words: str) -> None:
    result = run.ended()
    assert (result["state"], result["reason"], result["exit_code"]) == ("FAILED", "HANG", 124), result
    assert words in result["message"], result
    assert {(record.stop, record.code) for record in read_exits(run.paths, len(run.plan.nodes))} == {("hang", 124)}


def test_ranks_that_wait_for_one_that_has_ended(start):
    began = time.monotonic()
    runs = {
        start.sh(last(WAITS, *ended), nodes=nodes, ranks=ranks, hang_timeout=2.0): words
        for nodes, ranks, ended, words in (
            (1, 2, (0,), "rank 0 ended with code 0, and rank 1 went on waiting"),
            (1, 4, (1, 3), "ranks 1,3 ended with code 0, and ranks 0,2 went on waiting"),
            (2, 1, (0,), "rank 0 ended with code 0, and rank 1 went on waiting"),
            (2, 1, (1,), "rank 1 ended with code 0, and rank 0 went on waiting"),
            (3, 2, (2, 3, 4), "ranks 2-4 ended with code 0, and ranks 0-1,5 went on waiting"),
        )
    }
    for run, words in runs.items():
        hung(run, words)
    assert 2 < time.monotonic() - began < 50


def test_ranks_that_wait_and_ignore_term(start):
    run = start.sh(last("trap '' TERM; sleep 60"), nodes=2, hang_timeout=0.5)
    hung(run, "rank 1 went on waiting")


def test_a_wait_that_looks_for_a_file_now_and_then(start):
    run = start.python(
        "import os, threading, time\n"
        "if os.environ['RANK'] == '0': raise SystemExit\n"
        "threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(6000)], daemon=True).start()\n"
        "while not os.path.exists('never'): time.sleep(0.05)\n",
        ranks=2,
        hang_timeout=1.0,
    )
    hung(run, "rank 1 went on waiting")


BURNS = "t=time.process_time(); [None for _ in iter(lambda: time.process_time() - t < 0.06, False)]; time.sleep(0.1)"
READS = "open('/dev/zero', 'rb').read(20_000); time.sleep(0.1)"
PRINTS = "print('.', end='', flush=True); time.sleep(0.2)"


@pytest.mark.exhaustive
def test_last_work_that_is_slow_and_quiet_is_none(start):
    program = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '0': sys.exit()\n"
        "end = time.monotonic() + 5\n"
        "while time.monotonic() < end: %s\n"
    )
    runs = [
        start.python(program % work, nodes=nodes, ranks=2 // nodes, hang_timeout=2.5)
        for nodes in (1, 2)
        for work in (READS, PRINTS)
    ]
    runs.append(start.sh(last("setsid timeout 5 sh -c 'while :; do :; done' & wait"), ranks=2, hang_timeout=2.5))
    assert [run.ended()["state"] for run in runs] == ["SUCCEEDED"] * 5
    for nodes in (1, 2):  # one by one: who gets no CPU cannot be told from who wants none
        run = start.python(program % BURNS, nodes=nodes, ranks=2 // nodes, hang_timeout=2.5)
        assert run.ended()["state"] == "SUCCEEDED"


def test_one_rank_that_works_keeps_all(start):
    """Two wait, on two nodes, for one on a third that still computes."""
    computes = "timeout 4 sh -c 'while :; do :; done'; touch done"
    waits = "until [ -e done ]; do sleep 0.5; done"
    run = start.sh(last("if [ $RANK = 3 ]; then %s; fi; %s" % (computes, waits)), nodes=4, hang_timeout=2.0)
    assert run.ended()["state"] == "SUCCEEDED"


@pytest.mark.exhaustive
def test_who_is_not_watched_and_who_waits_for_less(start):
    together = "touch ../up-$RANK; until [ -e ../up-0 -a -e ../up-1 ]; do sleep 0.02; done"
    runs = [
        start.sh("sleep 3; " + together, nodes=2, hang_timeout=2.0),
        start.sh(last("sleep 1.2"), nodes=2, ranks=2, hang_timeout=5.0),
        start.sh(last("sleep 1.2"), nodes=2, hang_timeout=0.0),
        start.sh(last("sleep 1.2"), nodes=2),
    ]
    assert runs[-1].plan.hang_timeout == 300
    assert [run.ended()["state"] for run in runs] == ["SUCCEEDED"] * 4


@pytest.mark.exhaustive
def test_a_run_that_was_suspended_is_not_hung(start):
    """All of it stands for longer than the limit, ranks included; the rank that is left had worked until then."""
    run = start.sh(last("until [ -e ../go ]; do echo on; sleep 0.2; done"), nodes=2, hang_timeout=2.5)
    run.event(0, "rank_exited")
    until(lambda: run.log(1).count("on") > 2)
    everybody = [run.conductor, *run.agents(), run.rank(1)]
    for number, pause in ((signal.SIGSTOP, 4), (signal.SIGCONT, 1)):
        for pid in everybody:
            os.kill(pid, number)
        time.sleep(pause)
    open(os.path.join(run.paths.root, "go"), "w").close()
    assert run.ended()["state"] == "SUCCEEDED"


@pytest.mark.exhaustive
def test_a_rank_that_somebody_has_stopped_is_left_alone(start):
    run = start.sh(last("kill -STOP $$; until [ -e ../go ]; do sleep 0.05; done; echo on"), ranks=2, hang_timeout=1.0)
    run.event(0, "rank_exited")
    until(lambda: processes.is_stopped(run.rank(1)))
    time.sleep(2.5)
    open(os.path.join(run.paths.root, "go"), "w").close()
    os.kill(run.rank(1), signal.SIGCONT)
    assert run.ended()["state"] == "SUCCEEDED"


def test_a_job_says_how_long(cli: Cli) -> None:
    job = "command: '%s'\nhang_timeout: 0.9\nresources: {instance_count: 2}\n" % last("sleep 60")
    result = cli("run", cli.write("job.yml", job))
    assert result.code == 124, result
    assert "HANG" in result.err and "rank 0 ended with code 0, and rank 1 went on waiting" in result.err
