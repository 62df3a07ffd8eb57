"""Many jobs from one squeue and one sacct: every release's lines, arrays, and what is said when Slurm fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_fakes import EACH_VERSION, FakeSlurm

from worldsize.compute.slurm import queue
from worldsize.compute.slurm.job_rows import (
    ACCOUNTS,
    NOWHERE,
    QUEUE,
    UNANSWERED,
    code_of,
    ids_of,
    limit_of,
    seconds_of,
    time_of,
)
from worldsize.compute.slurm.queue import find_jobs, query_jobs, queue_rows
from worldsize.errors import SubmitAgain

START = 1_700_000_010.0

RECORDED_22_05 = (
    "1\x1fRUNNING\x1fNone\x1f0\x1f0\x1f1\x1f1795268894\x1f1795268895\x1f1795269495\x1f10:00\x1f1:03\x1f2\x1f"
    "node[1-2]\x1fmain\x1frun_a\x1f(null)\x1fcpu=2,mem=200M,node=2,billing=2,gres/gpu=4\x1fgres:gpu:2\x1f\n"
    "2\x1fFAILED\x1fNonZeroExitCode\x1f1792\x1f0\x1f1\x1f1795268894\x1f1795268895\x1f1795268895\x1f365-00:00:00\x1f"
    "0:00\x1f1\x1fnode1\x1fmain\x1frun_b\x1f(null)\x1fcpu=1,mem=100M,node=1,billing=1\x1fN/A\x1f\n"
    "6\x1fPENDING\x1fDependencyNeverSatisfied\x1f0\x1f0\x1f1\x1f1795268894\x1fN/A\x1fN/A\x1fUNLIMITED\x1f0:00\x1f1\x1f"
    "\x1fmain\x1frun_f\x1fafterok:2(failed)\x1fcpu=1,mem=100M,node=1,billing=1\x1fN/A\x1f\n"
    "19\x1fPENDING\x1fBeginTime\x1f0\x1f1\x1f1\x1f1795269203\x1f1795269209\x1fN/A\x1fUNLIMITED\x1f0:00\x1f2\x1f"
    "\x1flow\x1flo3\x1f(null)\x1fcpu=16,mem=1600M,node=2,billing=16,gres/gpu=8\x1fN/A\x1f\n"
)
"""As 22.05.8 printed them; other releases print these columns with the same code (print.c), but for exit_code."""

RECORDED_24_11 = (
    "6\x1fCANCELLED\x1fNone\x1f0:15\x1f0\x1f1\x1f1795270286\x1f1795270287\x1f1795270288\x1f365-00:00:00\x1f0:01\x1f1\x1f"
    "node1\x1fmain\x1fquery\x1f(null)\x1fcpu=1,mem=100M,node=1,billing=1\x1fN/A\x1f\n"
    "3\x1fFAILED\x1fRaisedSignal:9(Killed)\x1f0:9\x1f0\x1f1\x1f1795270286\x1f1795270287\x1f1795270287\x1f365-00:00:00\x1f"
    "0:00\x1f1\x1fnode1\x1fmain\x1fquery\x1f(null)\x1fcpu=1,mem=100M,node=1,billing=1\x1fN/A\x1f\n"
    "5_9\x1fPENDING\x1fJobArrayTaskLimit\x1f0:0\x1f0\x1f1\x1f1795270286\x1fN/A\x1fN/A\x1fUNLIMITED\x1f0:00\x1f1\x1f\x1fmain"
    "\x1fquery\x1f(null)\x1fcpu=1,mem=10M,node=1,billing=1\x1fN/A\x1f\n"
    "7\x1fPENDING\x1fBeginTime\x1f0:0\x1f0\x1f1\x1f1795270286\x1f1795273886\x1fNONE\x1fUNLIMITED\x1f0:00\x1f1\x1f\x1fmain"
    "\x1fquery\x1f(null)\x1fcpu=1,mem=100M,node=1,billing=1\x1fN/A\x1f\n"
    "1\x1fRUNNING\x1fNone\x1f0:0\x1f0\x1f1\x1f1795270286\x1f1795270287\x1f1795270887\x1f10:00\x1f0:04\x1f2\x1fnode[1-2]\x1f"
    "main\x1fquery\x1f(null)\x1fcpu=2,mem=200M,node=2,billing=2,gres/gpu=4\x1fgres/gpu:2\x1f\n"
)
"""As 24.11.5 printed them."""


@pytest.fixture(params=EACH_VERSION)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path, request.param)


@pytest.fixture
def one(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def test_recorded_lines() -> None:
    running, failed, never, requeued = queue_rows(RECORDED_22_05)
    assert (running.state, running.reason, running.nodes, running.node_count) == ("RUNNING", "", "node[1-2]", 2)
    assert (running.started, running.ended, running.limit, running.elapsed) == (1795268895.0, None, 600, 63)
    assert running.tres.endswith("gres/gpu=4")
    assert (failed.state, failed.reason, code_of(failed.exit_code)) == ("FAILED", "NonZeroExitCode", 7)
    assert (failed.limit, failed.ended) == (None, 1795268895.0)
    assert (never.nodes, never.started, never.expected, never.dependency) == ("", None, None, "afterok:2(failed)")
    assert (requeued.restarts, requeued.expected, requeued.started) == (1, 1795269209.0, None)


def test_recorded_lines_of_24_11() -> None:
    cancelled, killed, element, later, running = queue_rows(RECORDED_24_11)
    assert (cancelled.state, code_of(cancelled.exit_code), cancelled.ended) == ("CANCELLED", 143, 1795270288.0)
    assert (killed.reason, code_of(killed.exit_code)) == ("RaisedSignal:9(Killed)", 137)
    assert (element.job, element.reason, element.expected) == ("5_9", "JobArrayTaskLimit", None)
    assert (later.expected, later.ended) == (1795273886.0, None)
    assert (running.limit, running.elapsed, running.nodes) == (600, 4, "node[1-2]")


def test_every_release_tells_the_same(release: FakeSlurm) -> None:
    release.job("1", "RUNNING")
    release.job("2", "FAILED", (7, 0), reason="NonZeroExitCode")
    release.job("3", "FAILED", (0, 9), reason="RaisedSignal:9(Killed)")
    release.job("4", "OUT_OF_MEMORY", (0, 125), reason="OutOfMemory")
    release.job("5", "PENDING", reason="Priority", nodelist="", starttime="N/A", endtime="N/A", timelimit="NOT_SET")
    rows = query_jobs(["1", "2", "3", "4", "5"], release.run)
    assert [code_of(row.exit_code) for row in rows.values()] == [0, 7, 137, 137, 0]
    assert [row.seen for row in rows.values()] == [QUEUE] * 5
    assert (rows["1"].started, rows["1"].limit, rows["1"].elapsed) == (START, 3600, 60)
    assert (rows["5"].started, rows["5"].limit, rows["5"].reason) == (None, None, "Priority")


def test_gpus_are_known_where_accounting_does_not_count_them(release: FakeSlurm) -> None:
    release.job("1", **{"tres-alloc": "cpu=8,mem=2G,node=2,billing=8"})
    release.job("2", **{"tres-alloc": "cpu=8,node=2", "tres-per-node": "N/A"})
    rows = query_jobs(["1", "2"], release.run)
    assert rows["1"].tres == "cpu=8,mem=2G,node=2,billing=8,gres/gpu=4"
    assert rows["2"].tres == "cpu=8,node=2"


@pytest.mark.heavy
def test_500_runs_are_one_squeue_and_no_sacct(one: FakeSlurm) -> None:
    one.job("77", "RUNNING")
    for job in range(1000, 1400):
        one.job(str(job), "RUNNING")
    one.job("99_[0-98%5]", "PENDING")
    one.job("99_99", "RUNNING")
    wanted = ["77", *map(str, range(1000, 1400)), *("99_%d" % element for element in range(100))]
    rows = query_jobs(wanted, one.run)
    assert list(rows) == wanted
    assert all(row.seen == QUEUE and row.job == job for job, row in rows.items())
    assert rows["99_5"].state == "PENDING"
    assert rows["99_99"].state == "RUNNING"
    assert [call[0] for call in one.calls()] == ["squeue"]
    assert one.calls()[0][-1].split(",").count("99") == 1, "an array is asked for by its base id, once"


def test_jobs_that_squeue_forgot_come_from_one_sacct(release: FakeSlurm) -> None:
    release.job("1", "RUNNING")
    release.record("2", "COMPLETED")
    release.record("2.batch", "COMPLETED")
    release.record("3", "TIMEOUT", "0:0")
    release.record("4_7", "FAILED", "7:0")
    release.record("4_8", "NODE_FAIL")
    release.record("5", "CANCELLED by 1000", "0:15")
    rows = query_jobs(["1", "2", "3", "4_7", "4_8", "5", "6"], release.run)
    assert [(job, row.state, row.seen) for job, row in rows.items()] == [
        ("1", "RUNNING", QUEUE),
        ("2", "COMPLETED", ACCOUNTS),
        ("3", "TIMEOUT", ACCOUNTS),
        ("4_7", "FAILED", ACCOUNTS),
        ("4_8", "NODE_FAIL", ACCOUNTS),
        ("5", "CANCELLED", ACCOUNTS),
        ("6", "", NOWHERE),
    ]
    assert rows["5"].cancelled_by == 1000
    assert (rows["3"].started, rows["3"].ended, rows["3"].limit, rows["3"].elapsed) == (START, START + 60, 3600, 60)
    assert [call[0] for call in release.calls()] == ["squeue", "sacct"]


def test_one_unknown_id_alone_is_nowhere_and_no_error(release: FakeSlurm) -> None:
    rows = query_jobs(["4711"], release.run)
    assert rows["4711"].seen == NOWHERE
    assert rows["4711"].trouble == ""


def test_nothing_asked_asks_nothing(one: FakeSlurm) -> None:
    assert query_jobs([], one.run) == {}
    assert one.calls() == []


def test_without_accounting_the_queue_still_counts(one: FakeSlurm) -> None:
    one.job("1", "CANCELLED", (0, 15))
    one.mode("sacct", "disabled")
    rows = query_jobs(["1", "2"], one.run)
    assert (rows["1"].state, rows["1"].cancelled_by) == ("CANCELLED", None)
    assert (rows["2"].seen, rows["2"].trouble) == (NOWHERE, "Slurm accounting storage is disabled")


@pytest.mark.parametrize(
    "mode", ["away", "silent", "killed", "say squeue: error: Socket timed out on send/recv operation"]
)
def test_when_squeue_fails_nothing_is_concluded(one: FakeSlurm, mode: str) -> None:
    one.job("1")
    one.record("2", "COMPLETED")
    one.mode("squeue", mode)
    rows = query_jobs(["1", "2"], one.run)
    assert [row.seen for row in rows.values()] == [UNANSWERED, UNANSWERED]
    assert all(row.trouble for row in rows.values())
    assert [call[0] for call in one.calls()] == ["squeue"]


def test_a_squeue_that_hangs_is_given_up(one: FakeSlurm) -> None:
    one.mode("squeue", "hang")
    rows = query_jobs(["1"], lambda argv: one.run(argv, timeout=0.3))
    assert rows["1"].seen == UNANSWERED
    assert "no answer within 0.3 s" in rows["1"].trouble


def test_when_only_the_database_is_away_the_queue_counts(one: FakeSlurm) -> None:
    one.job("1")
    one.mode("sacct", "away")
    rows = query_jobs(["1", "2"], one.run)
    assert rows["1"].state == "RUNNING"
    assert rows["2"].seen == NOWHERE
    assert "Connection refused" in rows["2"].trouble


def test_a_machine_without_slurm_answers_nothing() -> None:
    from worldsize.compute.slurm.commands import run_slurm

    rows = query_jobs(["1"], lambda argv: run_slurm(argv, environ={"PATH": "/nowhere"}))
    assert rows["1"].seen == UNANSWERED
    assert "not a login node" in rows["1"].trouble


def test_an_answer_that_was_cut_is_none(one: FakeSlurm) -> None:
    one.job("1")
    one.job("2")
    one.mode("squeue", "cut")
    rows = query_jobs(["1", "2"], one.run)
    assert (rows["1"].seen, rows["2"].seen) == (UNANSWERED, UNANSWERED)
    assert "cut short" in rows["2"].trouble


def test_a_step_that_ran_out_of_memory_is_told_of_the_job(release: FakeSlurm) -> None:
    release.job("1", "FAILED", (137, 0))
    for job in ("1", "2"):
        release.record(job, "FAILED", "137:0")
        release.record(job + ".batch", "FAILED", "137:0")
        release.record(job + ".extern", "COMPLETED")
        release.record(job + ".0", "OUT_OF_MEMORY", "0:125")
    release.record("3", "FAILED", "1:0")
    release.record("3.0", "FAILED", "1:0")
    rows = query_jobs(["1", "2", "3"], release.run)
    assert [row.out_of_memory for row in rows.values()] == [True, True, False]
    assert [row.seen for row in rows.values()] == [QUEUE, ACCOUNTS, ACCOUNTS]


def test_of_a_cancelled_job_accounting_tells_by_whom(one: FakeSlurm) -> None:
    one.job("1", "CANCELLED", (0, 15))
    one.record("1", "CANCELLED by 1234", "0:15")
    row = query_jobs(["1"], one.run)["1"]
    assert (row.seen, row.cancelled_by) == (QUEUE, 1234)


def test_what_was_killed_is_completing_until_accounting_has_heard_of_it(
    one: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = "1700000100"
    monkeypatch.setattr(queue, "time", SimpleNamespace(time=lambda: float(now)))
    one.job("1", "CANCELLED", (0, 15), endtime=now)
    one.job("2", "FAILED", (137, 0), endtime=now)
    one.job("3", "CANCELLED", (0, 15), endtime=now, timeused="0:00")
    one.job("4", "CANCELLED", (0, 15), endtime=str(int(now) - 7))
    one.job("5", "CANCELLED", (0, 15), endtime=now)
    one.record("1", "RUNNING", End="Unknown")
    one.record("5", "CANCELLED by 1234", "0:15")
    states = ["COMPLETING", "COMPLETING", "CANCELLED", "CANCELLED", "CANCELLED"]
    assert [row.state for row in query_jobs(["1", "2", "3", "4", "5"], one.run).values()] == states
    one.mode("sacct", "disabled")
    assert query_jobs(["1"], one.run)["1"].state == "CANCELLED"


def test_of_a_restarted_job_accounting_tells_why(release: FakeSlurm) -> None:
    release.job("1", "PENDING", reason="BeginTime", restartcnt="1", nodelist="")
    release.record("1", "PREEMPTED", "0:0", Submit=100, Start=110)
    release.record("1.batch", "CANCELLED", "0:15", Submit=100, Start=110)
    at_first = query_jobs(["1"], release.run)["1"]
    release.record("1", "PENDING", Submit=200, Start="Unknown", End="Unknown")
    for row in (at_first, query_jobs(["1"], release.run)["1"]):
        assert (row.seen, row.state, row.restarts, row.before) == (QUEUE, "PENDING", 1, "PREEMPTED")


def test_every_attempt_is_a_record_and_the_newest_counts(release: FakeSlurm) -> None:
    release.record("1", "NODE_FAIL", Submit=100, Start=110)
    release.record("1", "PREEMPTED", Submit=200, Start=210)
    release.record("1", "COMPLETED", Submit=300, Start=310)
    release.record("2", "COMPLETED", Submit=300, Start=310)
    release.record("2", "NODE_FAIL", Submit=100, Start=110)
    rows = query_jobs(["1", "2"], release.run)
    assert [(row.state, row.restarts, row.before) for row in rows.values()] == [
        ("COMPLETED", 2, "PREEMPTED"),
        ("COMPLETED", 1, "NODE_FAIL"),
    ]


def test_a_job_that_accounting_does_not_know_the_name_of_yet(release: FakeSlurm) -> None:
    release.record("1", "COMPLETED", JobName="allocation", Partition="")
    release.record("2", "COMPLETED", JobName="allocation", Partition="main")
    release.record("3", "PREEMPTED", Submit=100)
    release.record("3", "COMPLETED", Submit=200, JobName="allocation", Partition="")
    rows = query_jobs(["1", "2", "3"], release.run)
    assert [row.name for row in rows.values()] == ["", "allocation", ""]
    assert [row.may_be("run") for row in rows.values()] == [True, False, True]
    assert rows["3"].restarts == 1


def test_a_number_that_is_used_again_is_no_restart(one: FakeSlurm) -> None:
    one.record("1", "TIMEOUT", Submit=100, JobName="somebody_elses")
    one.record("1", "COMPLETED", Submit=300, JobName="ours")
    row = query_jobs(["1"], one.run)["1"]
    assert (row.name, row.restarts, row.before) == ("ours", 0, "")
    one.job("2", "CANCELLED", (0, 15), name="ours")
    one.record("2", "CANCELLED by 7", Submit=100, JobName="somebody_elses")
    assert query_jobs(["2"], one.run)["2"].cancelled_by is None


@pytest.mark.heavy
def test_thousands_of_ids_do_not_overflow_an_argument(one: FakeSlurm) -> None:
    one.job("1234567000")
    one.job("1234597999")
    asked = ["%d" % job for job in range(1234567000, 1234598000)]
    rows = query_jobs(asked, one.run)
    assert rows[asked[0]].seen == rows["1234597999"].seen == QUEUE
    assert all(len(word) < 131072 for call in one.calls() for word in call)


def test_a_lost_reply_is_found_by_the_jobs_name(release: FakeSlurm) -> None:
    release.job("11", name="run")
    release.job("12_[0-9]", "PENDING", name="matrix")
    release.record("9", "COMPLETED", JobName="gone")
    assert find_jobs("run", release.run) == ["11"]
    assert find_jobs("matrix", release.run) == ["12"]
    assert find_jobs("gone", release.run) == ["9"]
    assert find_jobs("never", release.run) == []


def test_a_job_is_not_looked_for_in_vain_while_slurm_is_away(one: FakeSlurm) -> None:
    one.mode("squeue", "away")
    with pytest.raises(SubmitAgain):
        find_jobs("run", one.run)


def test_finding_works_without_accounting(one: FakeSlurm) -> None:
    one.mode("sacct", "disabled")
    assert find_jobs("run", one.run) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00", 0),
        ("1:03", 63),
        ("59:59", 3599),
        ("1:00:00", 3600),
        ("1-00:00:00", 86400),
        ("365-00:00:00", 31536000),
        ("00:00.012", 0),
        ("01:02:03.5", 3723),
        ("UNLIMITED", None),
        ("infinite", None),
        ("NOT_SET", None),
        ("INVALID", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_a_year_is_no_limit() -> None:
    assert limit_of("365-00:00:00") is None
    assert limit_of("364-23:59:00") == 364 * 86400 + 86340


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0:0", 0),
        ("7:0", 7),
        ("0:9", 137),
        ("0:15", 143),
        ("0:125", 137),
        ("137:0", 137),
        ("0", 0),
        ("1792", 7),
        ("9", 137),
        ("139", 128 + 11),
        ("125", 137),
        ("", None),
        ("N/A", None),
        ("a:0", None),
        ("1:x", None),
    ],
)
def test_exit_codes(text: str, code: int | None) -> None:
    assert code_of(text) == code


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    assert time_of("1795268895") == 1795268895.0
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert time_of("2026-11-21T13:48:15") == 1795268895.0
    monkeypatch.undo()
    time.tzset()
    assert [time_of(text) for text in ("Unknown", "N/A", "None", "", "0", "2026-13-41T00:00:00")] == [None] * 6


@pytest.mark.parametrize(
    ("job", "ids"),
    [
        ("12", ["12"]),
        ("12_3", ["12_3"]),
        ("12_[3]", ["12_3"]),
        ("12_[3-5,8%2]", ["12_3", "12_4", "12_5", "12_8"]),
        ("12_[0-10:5]", ["12_0", "12_5", "12_10"]),
        ("12_[1,3,5,...]", ["12_1", "12_3", "12_5"]),
        ("12+0", ["12+0"]),
    ],
)
def test_the_ids_of_an_array(job: str, ids: list[str]) -> None:
    assert list(ids_of(job)) == ids


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    from worldsize.compute.slurm.accounting import parse_records

    list(queue_rows(text))
    list(parse_records(text))
    seconds_of(text), time_of(text), code_of(text), list(ids_of(text))
