"""The cause of a failure, from evidence: what counts, what does not, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.diagnose.cause import find_cause
from worldsize.diagnose.cause_record import ESTABLISHED, SUPPORTED, UNKNOWN, Cause
from worldsize.diagnose.evidence import Comparison, Line, RaisedException, RankEnd, RunEvidence, SchedulerRecord
from worldsize.diagnose.explanation import explain
from worldsize.state.clocks import ClockOffset
from worldsize.state.records import Failure, Reason, RunState

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39 GiB"
PEER = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:22453"
TIMED_OUT = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"


def raised(rank: int, text: str, at: float, node: int | None = None, code: int = 1) -> RankEnd:
    node = rank // 2 if node is None else node
    return RankEnd(rank, node, code, at, False, RaisedException(text, at, "train.py", 9))


def stopped(rank: int, at: float = 20.0) -> RankEnd:
    return RankEnd(rank, rank // 2, 143, at, True)


def evidence(
    ends: Sequence[RankEnd],
    first: int | None = None,
    lines: Mapping[int, Sequence[str]] = {},
    machine: Mapping[int | None, Sequence[str]] = {},
    reason: str = Reason.EXIT_CODE,
    offsets: Mapping[int, ClockOffset] = {},
    times: Mapping[int, float] = {},
) -> RunEvidence:
    """Of a failed run. `first`: the rank whose failure was seen first."""
    failure = None
    if first is not None:
        end = ends[first]
        time = end.exception.time if end.exception else end.ended or 0.0
        failure = Failure(reason, "rank %d failed" % first, end.node, first, end.code or 1, time)
    said = {rank: [Line(text, "log", None, times.get(rank)) for text in texts] for rank, texts in lines.items()}
    told = {node: [Line(text, "log") for text in texts] for node, texts in machine.items()}
    return RunEvidence(0, RunState.FAILED, reason, "it failed", failure, ends, said, told, offsets)


def cause(*args: object, **fields: object) -> Cause:
    found = find_cause(evidence(*args, **fields))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_an_exception_of_the_first_rank_is_established() -> None:
    found = cause([raised(0, "ValueError: no", 10.0), stopped(1)], 0)
    assert (found.id, found.standing, found.rank, found.node, found.time) == ("exception", ESTABLISHED, 0, 0, 10.0)


def test_a_run_that_has_succeeded_or_goes_on_has_no_cause() -> None:
    there = evidence([RankEnd(0, 0, 0, 10.0)])
    for state in (RunState.SUCCEEDED, RunState.RUNNING):
        assert find_cause(there._replace(state=state)) is None


def test_a_cascade_never_displaces_an_earlier_root() -> None:
    found = cause([raised(0, PEER, 12.0), stopped(1), raised(2, OOM, 12.5), stopped(3)], 0)
    assert (found.id, found.standing, found.ranks) == ("gpu-memory", ESTABLISHED, (2,))


def test_a_root_that_was_caught_stands_before_what_the_others_made_of_it() -> None:
    """A rank that catches its exception and goes on, while the others wait for it."""
    ends = [raised(0, TIMED_OUT, 16.0), stopped(1), stopped(2), raised(3, PEER, 16.1)]
    found = cause(ends, 0, lines={2: ["caught " + OOM]}, times={2: 10.0})
    assert (found.id, found.standing, found.ranks) == ("gpu-memory", SUPPORTED, (2,))


def test_a_root_that_came_later_is_none_of_an_earlier_failure() -> None:
    found = cause([raised(0, PEER, 12.0), raised(1, OOM, 15.0)], 0)
    assert (found.id, found.standing) == ("peer-lost", UNKNOWN)


def test_what_a_rank_only_printed_is_supported() -> None:
    found = cause([RankEnd(0, 0, 1, 10.0), stopped(1)], 0, lines={0: ["bash: line 1: nosuch: command not found"]})
    assert (found.id, found.standing) == ("program-missing", SUPPORTED)


def test_a_code_alone_is_unknown() -> None:
    found = cause([RankEnd(0, 0, 3, 10.0), stopped(1)], 0, lines={0: ["epoch 1"]})
    assert (found.id, found.standing, found.rank) == ("unknown", UNKNOWN, 0)


def test_a_bare_kill_is_no_want_of_memory() -> None:
    found = cause([RankEnd(0, 0, 137, 10.0), stopped(1)], 0, lines={0: ["Killed"]}, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("killed", UNKNOWN)


def test_a_kill_that_the_kernel_counted_may_be_of_another_process_of_the_machine() -> None:
    found = cause([RankEnd(0, 0, 137, 10.0), stopped(1)], 0, reason=Reason.OUT_OF_MEMORY)
    assert (found.id, found.standing, found.rank) == ("host-memory", SUPPORTED, 0)


def test_a_kill_of_which_the_kernel_tells_at_that_time_is_want_of_memory() -> None:
    there = evidence([RankEnd(0, 0, 137, 100.0), stopped(1)], 0, reason=Reason.OUT_OF_MEMORY)
    text = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:78308kB, UID:1000 pgtables:188kB"
    for time, standing in ((102.0, ESTABLISHED), (40.0, SUPPORTED)):
        found = find_cause(there._replace(machine={0: [Line(text, "events", None, time)]}))
        assert found is not None and (found.id, found.standing) == ("host-memory", standing)


def test_a_kill_of_which_slurm_tells_is_want_of_memory() -> None:
    words = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
    found = cause([RankEnd(0, 0, 137, 10.0), stopped(1)], 0, machine={None: [words]}, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("host-memory", ESTABLISHED) and words in found.evidence


def test_a_segmentation_fault_needs_no_line() -> None:
    found = cause([stopped(0), RankEnd(1, 0, 139, 10.0)], 1, reason=Reason.SIGNAL)
    assert (found.id, found.standing, found.rank) == ("segmentation-fault", ESTABLISHED, 1)


def test_ranks_that_waited_name_the_one_that_did_not_come() -> None:
    ends = [raised(0, TIMED_OUT, 16.0), raised(1, TIMED_OUT, 16.1), stopped(2), raised(3, PEER, 16.2)]
    found = cause(ends, 0)
    assert (found.id, found.standing, found.ranks, found.node) == ("collective-timeout", SUPPORTED, (2,), 1)


def test_where_most_said_nothing_nobody_is_named() -> None:
    found = cause([raised(0, TIMED_OUT, 16.0), stopped(1), stopped(2), stopped(3)], 0)
    assert (found.id, found.standing, found.ranks) == ("collective-timeout", UNKNOWN, ())


def test_the_watchdog_names_the_rank_in_another_call() -> None:
    text = "[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=4)"
    calls = [(17, "BROADCAST"), (19, "ALLGATHER"), (17, "BROADCAST"), (17, "BROADCAST")]
    ends = [RankEnd(rank, rank // 2, 134, 30.0 + rank) for rank in range(4)]
    found = cause(ends, 0, lines={rank: [text % (rank, *call)] for rank, call in enumerate(calls)})
    assert (found.id, found.standing, found.ranks) == ("collective-timeout", SUPPORTED, (1,))


def test_a_node_that_misses_what_the_others_have_is_named() -> None:
    text = "ModuleNotFoundError: No module named 'x'"
    there = evidence([stopped(0), stopped(1), raised(2, text, 10.0), raised(3, text, 10.1)], 2)
    for compared, name in (
        ({}, "module-missing"),
        ({0: Comparison("x", True)}, "module-missing-on-one-node"),
        ({0: Comparison("x", False)}, "module-missing"),
        ({0: Comparison("x", True), 2: Comparison("x", False)}, "module-missing"),
        ({1: Comparison("x", True)}, "module-missing"),
        ({0: Comparison("another", True)}, "module-missing"),
    ):
        found = find_cause(there._replace(compared=compared))
        assert found is not None and found.id == name, compared


def test_equal_lines_of_many_ranks_are_one_link() -> None:
    ends = [raised(0, "ValueError: no", 10.0), *(raised(rank, PEER, 11.0) for rank in range(1, 8))]
    told = explain(evidence(ends, 0))
    assert told is not None
    assert [(link.role, link.ranks) for link in told.chain] == [("root", (0,)), ("cascade", (1, 2, 3, 4, 5, 6, 7))]


def test_clocks_put_in_order_what_happened_on_two_nodes() -> None:
    ends = [raised(0, OOM, 10.0, 0), raised(1, "ValueError: no", 10.5, 1)]
    told = explain(evidence(ends, 0, offsets={1: ClockOffset(2.0, 0.01)}))
    assert told is not None and [link.ranks for link in told.chain] == [(1,), (0,)] and not told.notes
    unsure = explain(evidence(ends, 0, offsets={1: ClockOffset(0.4, 0.3)}))
    assert unsure is not None
    first, then = "which of nodes 0 and 1 was first is uncertain", "and their clocks agree to 300.0 ms"
    assert unsure.notes == ("%s: 100.0 ms are between them, %s" % (first, then),)


TIMEOUT = "slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO TIME LIMIT ***"
STEP = TIMEOUT.replace("JOB 17", "STEP 17.0")
RECORD = SchedulerRecord(
    "job 17 reached its time limit (TIMEOUT), after 1 min of a limit of 1 min",
    Reason.TIME_LIMIT,
    "Slurm: it reached its time limit (TIMEOUT), after 1 min of a limit of 1 min",
)


def of_scheduler(reason: str, *words: str, record: SchedulerRecord | None = None, message: str = "") -> RunEvidence:
    """Of a run that a scheduler has ended."""
    there = evidence([stopped(0), RankEnd(1, 0, 143, 20.0)], machine={None: words}, reason=reason)
    return there._replace(scheduler=record, message=message or (record.message if record else ""))


def test_a_schedulers_record_is_told_before_its_daemons_words() -> None:
    found = find_cause(of_scheduler(Reason.TIME_LIMIT, STEP, TIMEOUT, record=RECORD))
    assert found is not None and (found.id, found.standing) == ("time-limit", ESTABLISHED)
    assert found.evidence == ("scheduler: " + RECORD.words, TIMEOUT) and "Slurm" not in found.sentence


def test_what_a_scheduler_says_of_job_and_step_is_one_link() -> None:
    told = explain(of_scheduler(Reason.TIME_LIMIT, STEP, TIMEOUT, record=RECORD))
    assert told is not None
    assert [(link.role, link.text) for link in told.chain] == [
        ("root", TIMEOUT),
        ("confirmation", RECORD.words),
        ("cascade", "ended with the job"),
    ]
    assert told.chain[-1].ranks == (0, 1)


def test_a_node_that_the_scheduler_saw_fail_is_named() -> None:
    words = TIMEOUT.replace("TIME LIMIT", "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")
    said = of_scheduler(Reason.NODE_FAILURE, words, "srun: error: Node failure on n2", message="Slurm: n2 failed")
    found = find_cause(said)
    assert found is not None and (found.id, found.evidence) == ("node-failed", ("srun: error: Node failure on n2",))


def test_a_record_alone_tells_of_a_failed_node() -> None:
    record = SchedulerRecord("job 17: n2 failed (NODE_FAIL)", Reason.NODE_FAILURE, "Slurm: n2 failed (NODE_FAIL)")
    found = find_cause(of_scheduler(Reason.NODE_FAILURE, record=record))
    assert found is not None and (found.id, found.sentence) == ("node-failed", "a node of it failed")


def test_a_node_whose_agent_was_lost_is_not_called_failed() -> None:
    there = of_scheduler(Reason.NODE_FAILURE, message="node 1 (n2): its agent was killed")
    failure = Failure(Reason.NODE_FAILURE, "node 1 (n2): its agent was killed", 1, None, 1, 9.0)
    found = find_cause(there._replace(failure=failure))
    assert found is not None and (found.id, found.node) == ("node-lost", 1)


def test_a_step_that_slurm_could_not_start_is_told_of() -> None:
    words = "srun: error: Task launch for StepId=17.0 failed on node n2: Communication connection failure"
    found = find_cause(of_scheduler(Reason.NODE_FAILURE, words, message="no rank was started: …"))
    assert found is not None and (found.id, found.standing) == ("step-refused", ESTABLISHED)


def test_what_only_a_batch_script_printed_is_supported() -> None:
    found = find_cause(of_scheduler(Reason.EXIT_CODE, "job.sh: line 3: nosuch: command not found"))
    assert found is not None and (found.id, found.standing) == ("program-missing", SUPPORTED)


def test_a_rank_that_aborts_says_why_before() -> None:
    lines = ["step 3", OOM]
    aborted = [RankEnd(0, 0, 134, 10.0), stopped(1)]
    found = cause(aborted, 0, lines={0: lines}, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("gpu-memory", SUPPORTED)
    found = cause(aborted, 0, lines={0: lines[:1]}, reason=Reason.SIGNAL)
    assert (found.id, found.standing) == ("native-abort", ESTABLISHED)


def test_a_batch_scripts_code_is_not_taken_for_its_own() -> None:
    """The agents know which task of its srun a signal ended; of that there is no other record."""
    there = evidence([RankEnd(0, 0, 139, 10.0), RankEnd(1, 1)], reason=Reason.SIGNAL)
    failure = Failure(Reason.SIGNAL, "rank 1 on node 1 was killed by signal 11 (SIGSEGV)", 1, 1, 139, 9.9)
    found = find_cause(there._replace(failure=failure))
    assert found is not None and (found.id, found.ranks, found.node) == ("segmentation-fault", (1,), 1)
