"""Which failure counts: one rank's words, its code, and the weighing of two answers."""

from __future__ import annotations

import itertools
import json
import os

import pytest

from worldsize.agent.outcome.rank_failure import (
    rank_failure,
    read_error,
    start_failure,
    with_storage_reason,
    with_watchdogs_words,
)
from worldsize.agent.outcome.verdict import (
    CANCEL,
    FAILURE,
    HANG,
    HEAD_LOST,
    NODE_LOST,
    TIMEOUT,
    Verdict,
    stronger_verdict,
)
from worldsize.common.json_values import tuple_of
from worldsize.plan.run_paths import RunPaths
from worldsize.state.first_failure import is_peer_loss
from worldsize.state.records import Failure, Reason


def failure(message: str = "boom", time: float = 1.0) -> Failure:
    return Failure(Reason.EXIT_CODE, message, 0, 0, 3, time)


EARLY, LATE = Verdict(FAILURE, failure(time=1.0)), Verdict(FAILURE, failure(time=2.0))
PEER = Verdict(FAILURE, failure("Connection closed by peer", time=0.5))
CANCELLED = Verdict(CANCEL, None)
TIMED_OUT = Verdict(TIMEOUT, failure("limit", time=5.0))
HUNG = Verdict(HANG, failure("hung", time=5.0))
LOST = Verdict(NODE_LOST, failure("its agent has ended", time=1.5))


@pytest.mark.parametrize(
    ("known", "heard", "counts"),
    [
        (None, EARLY, EARLY),
        (None, CANCELLED, CANCELLED),
        (LATE, EARLY, EARLY),
        (EARLY, LATE, EARLY),
        (PEER, LATE, LATE),
        (LATE, PEER, LATE),
        (LATE, LOST, LOST),
        (LOST, EARLY, EARLY),
        (CANCELLED, EARLY, CANCELLED),
        (EARLY, CANCELLED, EARLY),
        (TIMED_OUT, EARLY, TIMED_OUT),
        (HUNG, EARLY, HUNG),
        (EARLY, HUNG, EARLY),
        (EARLY, TIMED_OUT, EARLY),
        (EARLY, EARLY, EARLY),
    ],
)
def test_weigh(known, heard, counts):
    assert stronger_verdict(known, heard) == counts


def test_of_several_failures_the_order_of_arrival_does_not_matter():
    head = Verdict(HEAD_LOST, failure("the head's agent has ended", time=3.0))
    for order in itertools.permutations([EARLY, LATE, PEER, LOST, head]):
        found = None
        for heard in order:
            found = stronger_verdict(found, heard)
        assert found == EARLY


@pytest.mark.parametrize("verdict", [EARLY, CANCELLED, TIMED_OUT])
def test_a_verdict_travels(verdict):
    assert tuple_of(Verdict, json.loads(json.dumps(verdict.fields()))) == verdict


def error(kind: str, message: str, time: float = 5.0) -> dict:
    return {"type": kind, "message": message, "frames": [], "time": time}


@pytest.mark.parametrize(
    ("code", "said", "oom", "reason", "words"),
    [
        (1, None, False, "EXIT_CODE", "rank 2 on node 1 (h) exited with code 1"),
        (137, None, False, "SIGNAL", "was killed by signal 9 (SIGKILL)"),
        (255, None, False, "EXIT_CODE", "exited with code 255"),
        (137, None, True, "OUT_OF_MEMORY", "was killed by signal 9"),
        (139, None, True, "SIGNAL", "was killed by signal 11 (SIGSEGV)"),
        (1, error("ValueError", "v\nmore"), False, "EXIT_CODE", "code 1: ValueError: v"),
        (1, error("MemoryError", ""), False, "OUT_OF_MEMORY", "MemoryError"),
        (1, error("torch.OutOfMemoryError", "CUDA out of memory"), False, "OUT_OF_MEMORY", "CUDA out of memory"),
        (1, error("OSError", "[Errno 28] No space left on device"), False, "STORAGE", "No space left"),
        (1, error("OSError", "[Errno 122] Disk quota exceeded"), False, "STORAGE", "quota"),
        (1, error("ValueError", "x" * 100_000), False, "EXIT_CODE", "xxx"),
    ],
)
def test_the_reason_of_a_rank(code, said, oom, reason, words):
    found = rank_failure(2, 1, "h", code, 9.0, said, oom)
    assert (found.reason, found.code, found.rank, found.node_rank) == (reason, code, 2, 1)
    assert words in found.message and len(found.message) < 700 and "\n" not in found.message
    assert found.time == (said["time"] if said else 9.0)


def test_a_secret_at_the_end_of_what_is_shown():
    """Found by review: what was cut first had no shape any more."""
    found = rank_failure(2, 1, "h", 1, 9.0, error("E", "x" * 470 + " https://me:hunter2hunter2@host/"), False)
    assert "hunter" not in found.message


def test_an_abort_as_the_interpreter_ends_after_an_exception_is_no_cause():
    """Threads of gloo's do that now and then; they do it at once."""
    found = rank_failure(2, 1, "h", 134, 9.0, error("ValueError", "v"), False)
    assert found == rank_failure(2, 1, "h", 1, 9.0, error("ValueError", "v"), False)
    for earlier in (None, error("ValueError", "of a child, long ago", time=-60.0), error("ValueError", "v", time=0.0)):
        assert rank_failure(2, 1, "h", 134, 90.0, earlier, False).code == 134


WATCHDOG = (
    "[rank2]:[E1129 21:04:11.5 ProcessGroupNCCL.cpp:688] [Rank 2] Watchdog caught collective operation timeout: W"
)


def test_an_abort_is_told_in_the_words_of_the_watchdog_that_did_it(tmp_path):
    paths = RunPaths(str(tmp_path))
    aborted = rank_failure(2, 1, "h", 134, 9.0, None, False)
    assert with_watchdogs_words(aborted, paths) == aborted
    log = tmp_path / os.path.relpath(paths.rank_log(2), tmp_path)
    log.parent.mkdir(parents=True)
    log.write_text("epoch 1\n%s\nterminate called after throwing an instance of 'c10::DistBackendError'\n" % WATCHDOG)
    assert with_watchdogs_words(aborted, paths) == aborted._replace(message="%s: %s" % (aborted.message, WATCHDOG))
    killed = rank_failure(2, 1, "h", 137, 9.0, None, False)
    assert with_watchdogs_words(killed, paths) == killed


def test_an_exception_from_the_future_is_dated_by_the_ranks_end():
    assert rank_failure(0, 0, "h", 1, 9.0, error("E", "m", time=99.0), False).time == 9.0


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242", True),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", True),
        ("torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error", True),
        ("ValueError: shapes do not fit", False),
        ("was killed by signal 9", False),
    ],
)
def test_lost_peers_are_known_by_their_words(message, lost):
    assert is_peer_loss(failure(message)) is lost


@pytest.mark.parametrize("known", [failure("rank 1 on node 0 (h) exited with code 1"), failure("E: m")])
def test_a_failure_for_want_of_space_says_so(known):
    found = with_storage_reason(known, "/runs/x")
    assert found == known._replace(reason=Reason.STORAGE, message=known.message + ": no space left on /runs/x")


def test_want_of_space_is_said_once():
    said = failure("OSError: [Errno 28] No space left on device")
    assert with_storage_reason(said, "/runs/x") == said._replace(reason=Reason.STORAGE)


def test_a_command_that_cannot_start():
    missing = start_failure("x", 1, 0, FileNotFoundError(2, "command not found"), "/runs/x", full=False)
    refused = start_failure("x", 1, 0, PermissionError(13, "cannot be executed"), "/runs/x", full=False)
    full = start_failure("x", 1, 0, OSError(28, "No space left on device"), "/runs/x", full=True)
    assert [(each.code, each.reason) for each in (missing, refused, full)] == [
        (127, "EXIT_CODE"), (126, "EXIT_CODE"), (126, "STORAGE"),
    ]  # fmt: skip
    assert missing.message == "x: command not found"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("", None),
        ("{", None),
        ("[1]", None),
        ('{"message": 7}', None),
        ('{"message": "plain"}', ("", "plain")),
        ('{"message": {"message": "TypeError: t: u", "extraInfo": {"timestamp": "7"}}}', ("TypeError", "t: u")),
        ('{"message": {"message": "E: m", "extraInfo": {"timestamp": "noon"}}}', ("E", "m")),
        ('{"message": {"message": "E: m", "extraInfo": "none"}}', ("E", "m")),
    ],
)
def test_what_torch_wrote(tmp_path, text, found):
    paths = RunPaths(str(tmp_path))
    path = tmp_path / "told.json"
    if text is not None:
        path.write_text(text)
    read = read_error(paths, 0, str(path))
    assert (read and (read["type"], read["message"])) == found


@pytest.mark.parametrize(
    "text",
    [
        '{"pid": 1}',
        '{"type": 7, "message": null, "time": "x"}',
        '{"type": "", "message": "", "frames": [], "time": NaN}',
        "[]",
        "\xff",
    ],
)
def test_a_damaged_error_file_is_no_crash(tmp_path, text):
    """A script may write there, or its node may die at the wrong moment."""
    paths = RunPaths(str(tmp_path))
    (tmp_path / "attempt-0" / "errors").mkdir(parents=True)
    with open(paths.rank_error(0), "w", encoding="latin-1") as file:
        file.write(text)
    found = rank_failure(0, 0, "h", 1, 9.0, read_error(paths, 0), False)
    assert (found.code, found.time) == (1, 9.0)
