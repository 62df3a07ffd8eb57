"""What an exception or a signal that ended a rank is taken for: its text alone may say little."""

from __future__ import annotations

from unit.diagnose.test_cause import cause, evidence, raised, stopped

from worldsize.diagnose.cause import ESTABLISHED, SUPPORTED, UNKNOWN
from worldsize.diagnose.evidence import Line, RankEnd
from worldsize.diagnose.exception_text import direct_cause, without_frames
from worldsize.diagnose.explanation import explain
from worldsize.state.records import Reason

IN_WORKER = """FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "train.py", line 12, in __getitem__
    raise ValueError("loss is nan")
FileNotFoundError: [Errno 2] No such file or directory: 'a.jpg'
"""
LEFT = "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"
WORKER_KILLED = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: %s"
CAUSED = "The above exception was the direct cause of the following exception:"
TRACEBACK = "Traceback (most recent call last):"


def printed(first: str, last: str) -> list[str]:
    """A log's lines of an exception that was raised from another."""
    frame = ['  File "train.py", line 3, in <module>', "    run()"]
    return ["epoch 1", TRACEBACK, *frame, first, CAUSED, TRACEBACK, *frame, last]


def test_the_code_in_a_traceback_says_nothing() -> None:
    assert without_frames(IN_WORKER).split("\n") == [IN_WORKER.split("\n")[0], IN_WORKER.split("\n")[4], ""]
    assert without_frames("ValueError: a\n  b") == "ValueError: a\n  b"
    found = cause([raised(0, IN_WORKER, 10.0), stopped(1)], 0)
    assert (found.id, found.standing) == ("path-missing", ESTABLISHED) and "'a.jpg'" in found.evidence[0]


def test_an_exception_of_a_worker_that_no_row_knows() -> None:
    found = cause([raised(0, "KeyError: Caught KeyError in DataLoader worker process 0.\nKeyError: 'a'", 10.0)], 0)
    assert (found.id, found.sentence) == ("loader-exception", "a KeyError in worker 0 of a DataLoader")


def test_a_worker_is_killed_by_the_signal_that_the_first_exception_names() -> None:
    ends = [raised(0, LEFT, 10.0), stopped(1)]
    killed = cause(ends, 0, lines={0: printed(WORKER_KILLED % "Killed. ", LEFT)})
    assert killed.id == "loader-worker-killed" and killed.sentence.endswith(": Killed")
    bus = "Bus error. It is possible that dataloader's workers are out of shared memory."
    found = cause(ends, 0, lines={0: printed(WORKER_KILLED % bus, LEFT)})
    assert (found.id, found.standing) == ("loader-shared-memory", ESTABLISHED)
    assert cause(ends, 0).id == "loader-worker-killed"


def test_an_exception_that_no_row_knows_is_what_it_was_raised_from() -> None:
    ends = [raised(0, "RuntimeError: no data", 10.0), stopped(1)]
    first = "FileNotFoundError: [Errno 2] No such file or directory: 'a'"
    found = cause(ends, 0, lines={0: printed(first, "RuntimeError: no data")})
    assert (found.id, found.standing) == ("path-missing", ESTABLISHED)
    assert found.evidence == ("RuntimeError: no data, raised from " + first,)


def test_only_the_traceback_of_the_uncaught_exception_counts() -> None:
    earlier = printed("FileNotFoundError: [Errno 2] No such file or directory: 'a'", "KeyError: 'caught'")
    later = [TRACEBACK, '  File "train.py", line 9, in <module>', "ValueError: no"]
    lines = [Line(text, "log") for text in (*earlier, *later)]
    assert direct_cause("ValueError: no", lines) == ""
    assert direct_cause("KeyError: 'caught'", lines).startswith("FileNotFoundError")
    assert direct_cause("KeyError: 'other'", lines) == direct_cause("", lines) == ""


def test_what_the_program_said_stands_beside_the_signal() -> None:
    ends = [RankEnd(0, 0, 134, 10.0), stopped(1)]
    found = cause(ends, 0, lines={0: ["free(): double free detected in tcache 2"]}, reason=Reason.SIGNAL)
    words = "rank 0 was killed by signal 6 (SIGABRT): free(): double free detected in tcache 2"
    assert (found.id, found.standing, found.evidence) == ("native-abort", ESTABLISHED, (words,))


def test_what_the_program_said_beside_the_signal_has_its_place() -> None:
    line = Line("free(): double free detected in tcache 2", "rank.log", 40)
    told = explain(evidence([RankEnd(0, 0, 134, 10.0)], 0, reason=Reason.SIGNAL)._replace(lines={0: [line]}))
    assert told is not None and (told.chain[0].file, told.chain[0].offset) == ("rank.log", 40)


def test_an_interrupt_is_known_by_its_signal() -> None:
    found = cause([RankEnd(0, 0, 130, 10.0), stopped(1)], 0, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("interrupted", ESTABLISHED)


def test_a_signal_that_somebody_sent_is_unknown_where_nothing_else_is_known() -> None:
    ends = [RankEnd(0, 0, 143, 10.0), stopped(1)]
    found = cause(ends, 0, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("terminated", UNKNOWN)
    found = cause(ends, 0, lines={1: ["OSError: [Errno 28] No space left on device"]}, reason=Reason.SIGNAL)
    assert (found.id, found.standing, found.rank) == ("disk-full", SUPPORTED, 1)


def test_a_signal_that_no_row_knows_is_named() -> None:
    found = cause([RankEnd(0, 0, 159, 10.0)], 0, reason=Reason.SIGNAL)
    assert (found.id, found.sentence.partition(",")[0]) == ("unknown", "it was killed by signal 31 (SIGSYS)")


def test_a_kill_for_want_of_memory_is_the_root_of_the_chain() -> None:
    told = explain(evidence([RankEnd(0, 0, 137, 10.0), stopped(1)], 0, reason=Reason.OUT_OF_MEMORY))
    assert told is not None and [link.role for link in told.chain] == ["root", "cascade"]


def test_what_the_start_of_a_node_said_confirms_that_it_failed() -> None:
    words = "bash: line 13: cd: /data: No such file or directory"
    told = explain(evidence([], machine={None: [words]}, reason=Reason.ENVIRONMENT))
    assert told is not None and told.cause.id == "node-not-ready" and words in told.cause.evidence
    assert [link.role for link in told.chain] == ["confirmation"]


def test_a_worker_that_was_killed_while_slurm_counted_a_kill_for_want_of_memory() -> None:
    words = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
    ends = [raised(0, LEFT, 10.0), stopped(1)]
    found = cause(ends, 0, lines={0: printed(WORKER_KILLED % "Killed. ", LEFT)}, machine={None: [words]})
    assert (found.id, found.standing) == ("host-memory", ESTABLISHED) and found.sentence.endswith("of its DataLoader")
    found = cause(ends, 0, lines={0: printed(WORKER_KILLED % "Aborted. ", LEFT)}, machine={None: [words]})
    assert found.id == "loader-worker-killed"
