"""Ranks that wait for ever once others have ended with 0, in real runs.

What counts as idle, for how long, and on which nodes: tests/unit/agent/supervision/test_standstill.py and
test_process_activity.py there, and tests/unit/agent/control/test_peers.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from driver import Cli
from local_runs import LocalRuns, until

from worldsize.state.exit_records import read_exits

WAITS = "echo waiting; exec sleep 600"


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def last(work: str, *ended: int) -> str:
    """These ranks (0 alone when none is named) end at once with 0; all others do `work`."""
    return "case $RANK in %s) exit 0;; esac; %s" % ("|".join(map(str, ended or (0,))), work)


def test_ranks_that_wait_for_others_that_have_ended(start):
    """Those that are left are on a node where another has ended, and on one where none has."""
    run = start.sh(last(WAITS, 2, 3, 4), nodes=3, ranks=2, hang_timeout=2.0)
    result = run.ended()
    assert (result["state"], result["reason"], result["exit_code"]) == ("FAILED", "HANG", 124), result
    assert "ranks 2-4 ended with code 0, and ranks 0-1,5 still waited" in result["message"], result
    assert {(record.stop, record.code) for record in read_exits(run.paths, 3)} == {("hang", 124)}


@pytest.mark.exhaustive
@pytest.mark.timing
def test_a_whole_run_that_was_paused_goes_on(start):
    """All of it, ranks included, stands for longer than a node may be silent and a rank idle. Nobody is lost, and the
    rank that is left, which had worked until then, does not hang."""
    run = start.sh(last("until [ -e ../go ]; do echo on; sleep 0.2; done"), nodes=2, silence=3.0, hang_timeout=2.5)
    run.event(0, "rank_exited")
    until(lambda: run.log(1).count("on") > 2)
    everybody = [run.conductor, *run.agents(), run.rank(1)]
    for number, pause in ((signal.SIGSTOP, 6), (signal.SIGCONT, 0)):
        for pid in everybody:
            os.kill(pid, number)
        time.sleep(pause)
    before = run.log(1).count("on")
    until(lambda: run.log(1).count("on") > before + 5)
    open(os.path.join(run.paths.root, "go"), "w").close()
    assert run.ended()["state"] == "SUCCEEDED"


def test_a_job_says_how_long(cli: Cli) -> None:
    job = "command: '%s'\nhang_timeout: 1.5\nresources: {instance_count: 2}\n" % last("sleep 600")
    result = cli("run", cli.write("job.yml", job))
    assert result.code == 124, result
    assert "HANG" in result.err and "rank 0 ended with code 0, and rank 1 still waited" in result.err
