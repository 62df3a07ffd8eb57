"""The cause of a failure in which ranks waited for each other: who did not come, who is named, who said it first."""

from __future__ import annotations

import pytest
from unit.diagnose.test_cause import OOM, PEER, TIMED_OUT, cause, evidence, raised, stopped

from worldsize.diagnose.cause_record import ESTABLISHED, SUPPORTED, UNKNOWN
from worldsize.diagnose.evidence import RankEnd
from worldsize.diagnose.explanation import explain
from worldsize.diagnose.observations import observations

BARRIER = "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms"
CLIENTS = "torch.distributed.DistStoreError: Timed out after 3 seconds waiting for clients. 2/3 clients joined."
STORE = "torch.distributed.DistStoreError: wait timeout after 2000ms, keys: /default_pg/0//cpu//0/0"
CONNECT = "DistNetworkError: The client socket has timed out after 2000ms while trying to connect to (h, 1)."
MISMATCH = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank %d is running collective: "
    "CollectiveFingerPrint(OpType=%s), but Rank %d is running collective: CollectiveFingerPrint(OpType=%s)"
)
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:94, unhandled system error\n"
    "ncclSystemError: no.\nLast error:\n"
)
SHM = "vm:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9 bytes, error: No space left on device (28)"


def test_the_ranks_that_a_barrier_names_are_the_cause() -> None:
    found = cause([raised(0, BARRIER, 16.0), stopped(1), stopped(2), stopped(3)], 0)
    assert (found.id, found.standing, found.ranks, found.node) == ("barrier-missed", ESTABLISHED, (1, 3), 0)
    assert found.sentence == "ranks 1,3 did not reach the barrier"


def test_why_a_rank_missed_the_barrier_counts_more() -> None:
    ends = [raised(0, BARRIER, 16.0), stopped(1), stopped(2), stopped(3)]
    found = cause(ends, 0, lines={3: ["skipped: " + OOM]}, times={3: 9.0})
    assert (found.id, found.standing, found.ranks) == ("gpu-memory", SUPPORTED, (3,))


def test_the_rank_that_called_mpi_abort_is_named_by_the_launcher_where_it_said_nothing() -> None:
    said = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD"
    ends = [stopped(0), RankEnd(1, 0, 7, 10.0)]
    found = cause(ends, 1, machine={0: [said]})
    assert (found.id, found.standing, found.ranks) == ("mpi-abort", SUPPORTED, (1,))
    assert cause(ends, 1, machine={0: [said]}, lines={1: [OOM]}).id == "gpu-memory"


def test_a_root_that_waited_one_second_more_is_the_cause_of_those_that_timed_out_before() -> None:
    found = cause([raised(0, CLIENTS, 13.5), raised(1, STORE, 12.0)], 1)
    assert (found.id, found.standing, found.ranks) == ("world-size-mismatch", ESTABLISHED, (0,))


@pytest.mark.parametrize("text", [PEER, TIMED_OUT])
def test_who_ended_well_before_is_the_cause_of_who_still_waited(text: str) -> None:
    found = cause([raised(0, text, 16.0), RankEnd(1, 0, 0, 15.0)], 0)
    assert (found.id, found.standing, found.ranks) == ("early-exit", SUPPORTED, (1,))
    assert found.sentence == "rank 1 ended with 0 while rank 0 still waited"
    assert cause([raised(0, text, 16.0), RankEnd(1, 0, 0, 19.0)], 0).id != "early-exit"


def test_what_ranks_say_of_one_mismatch_is_one_cause_in_the_words_of_the_first() -> None:
    texts = [MISMATCH % (0, "BARRIER", 1, "ALLREDUCE"), MISMATCH % (1, "ALLREDUCE", 0, "BARRIER")]
    told = explain(evidence([raised(0, texts[0], 10.1), raised(1, texts[1], 10.0)], 1))
    assert told is not None and (told.cause.id, told.cause.ranks) == ("collective-mismatch", (0, 1))
    assert told.cause.sentence.endswith("rank 0 in BARRIER, rank 1 in ALLREDUCE")
    assert [link.role for link in told.chain] == ["root"]


@pytest.mark.parametrize(
    ("text", "printed", "known"),
    [
        (CONNECT, "[c10d] (h, 1) cannot be retrieved (gai error: -2 - Name or service not known)", "name-not-resolved"),
        (NCCL, SHM, "shared-memory"),
    ],
)
def test_what_was_printed_before_a_general_exception_is_its_cause(text: str, printed: str, known: str) -> None:
    found = cause([stopped(0), raised(1, text, 10.0)], 1, lines={1: [printed]})
    assert (found.id, found.standing, found.ranks) == (known, SUPPORTED, (1,))
    assert [each.partition("\n")[0] for each in found.evidence] == [printed, text.partition("\n")[0]]
    assert cause([stopped(0), raised(1, text, 10.0)], 1, lines={0: [printed]}).id != known


def test_a_c_plus_plus_exception_that_aborted_the_rank_ended_it() -> None:
    lines = ["terminate called after throwing an instance of 'gloo::EnforceNotMet'", "  what():  %s"]
    known = [lines[0], lines[1] % "op.preamble.length <= op.nbytes. 32 vs 16"]
    told = explain(evidence([stopped(0), RankEnd(1, 0, 134, 10.0)], 1, lines={1: known}))
    assert told is not None and (told.cause.id, told.cause.standing) == ("collective-mismatch", ESTABLISHED)
    assert [link.ranks for link in told.chain] == [(1,), (0,)], "not the abort as well"
    unknown = cause([stopped(0), RankEnd(1, 0, 134, 10.0)], 1, lines={1: [lines[0], lines[1] % "bad news"]})
    assert (unknown.id, unknown.evidence) == ("native-abort", ("what():  bad news",))


def test_the_watchdogs_exception_is_that_of_a_rank_which_waited() -> None:
    said = "  what():  [PG ID 0 Rank 0] watchdog thread terminated with exception: [Rank 0] Watchdog caught collective "
    said += "operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=4)"
    found = cause([RankEnd(0, 0, 134, 10.0), stopped(1)], 0, lines={0: [said]})
    assert (found.id, found.standing, found.ranks) == ("collective-timeout", SUPPORTED, (1,))


def test_cascades_are_one_whatever_their_words() -> None:
    texts = (TIMED_OUT, TIMED_OUT.replace("recv", "send"))
    ends = [raised(rank, texts[rank % 2], 16.0 - rank / 10) for rank in range(3)]
    (only,) = observations(evidence([*ends, stopped(3)], 2))
    assert (only.ranks, only.text, only.time) == ((0, 1, 2), TIMED_OUT, 15.8)


def test_lines_of_the_traceback_of_what_ended_the_rank_are_no_links() -> None:
    chained = "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>"
    lines = ["ConnectionRefusedError: [Errno 111] Connection refused", chained]
    for ends in ([raised(0, chained, 10.0)], [RankEnd(0, 0, 1, 10.0)]):
        (only,) = observations(evidence(ends, 0, lines={0: lines}))
        assert only.id == "download-failed"


def test_a_line_that_only_confirms_is_no_cause() -> None:
    found = cause([RankEnd(0, 0, 1, 10.0), stopped(1)], 0, lines={0: ["NCCL INFO NET/IB : No device found."]})
    assert (found.id, found.standing) == ("unknown", UNKNOWN)


def test_the_last_error_of_nccl_stands_in_the_cause() -> None:
    found = cause([raised(0, NCCL + "Call to ibv_create_cq failed", 10.0), stopped(1)], 0)
    assert found.sentence.endswith(": Call to ibv_create_cq failed") and found.id == "nccl-system"
