"""The collector of a node's evidence about a hang: the stacks of its ranks, from py-spy, else from faulthandler in the
ranks, else the values in /proc; and on request the dumps of their Flight Recorders.

It is executed as a program of its own on the ranks' node, started by the node's agent or by a command on the node.
Reading another process, or a file that a rank has written, can wait for a file server; the program can be abandoned
then. So it prints the results of py-spy before it requests more.

Standard library only: travels inside agent.pyz (Python >= 3.8).

    `ORDER | python -I -S -c PROGRAM PACKAGES`    lines for `node_answer.parse_answer` on the standard output

ORDER is JSON: {"ranks": {"0": PID, …}, "directory": the directory of the ranks' files of stacks, "seconds": 15,
"dumps": whether to request the ranks' Flight Recorders as well}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.hangs.agent.py_spy import ask_py_spy, find_py_spy
from worldsize.wings.hangs.agent.rank_pythons import RankProcesses, command_of, is_python, rank_processes, state_of
from worldsize.wings.hangs.agent.recorder_dumps import SECONDS as RECORDER_SECONDS
from worldsize.wings.hangs.agent.recorder_dumps import ask_recorders, read_answer
from worldsize.wings.hangs.agent.signal_dumps import ask_by_signal
from worldsize.wings.hangs.agent.source_lines import with_source_lines
from worldsize.wings.hangs.judgement.recorder.dump_lines import MOST_BYTES, dump_line
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump
from worldsize.wings.hangs.judgement.stacks.collective_waits import may_wait_for_children
from worldsize.wings.hangs.judgement.stacks.rank_stacks import (
    FAULTHANDLER,
    PROC,
    PY_SPY,
    RAN_ON,
    RankStacks,
    ThreadStack,
    parse_moved,
    parse_proc,
    parse_py_spy,
    parse_wait_channel,
    parse_waits,
    stacks_line,
)

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from worldsize.wings.hangs.agent.stack_collector import main; main()"
)
SECONDS = 15.0
"""The maximum number of seconds for the whole collection."""

_NOT_ASKED = {
    "T": "it is stopped (SIGSTOP)",
    "t": "it is held by a debugger",
    "Z": "it has ended",
    "X": "it has ended",
    "": "it has ended",
}
"""The reason, by the state of a process, why no signal is sent to it for its stacks."""

_ONLY_READ = ("T", "t")
"""The states of processes that py-spy reads nevertheless, since it neither stops nor continues them."""

_SHARE_FOR_SIGNALS = 0.4
"""The share of the remaining time that py-spy leaves to faulthandler."""

_SHARE_FOR_DUMPS = 0.2
"""The share of the time of an order that stacks leave to the dumps, if these are requested."""

_MOST_OF_DUMPS = 320_000
"""The maximum number of characters of all dumps of a node, since a node's answer goes through its control channel."""

_SILENT = ("Z", "X", "", "T", "t")
"""The states of processes whose recorder does not answer, since they have ended or are stopped."""

_MOST_THREADS = 256
_MOST_STAT = 4096


class _Wanted(NamedTuple):
    """A process whose stacks are requested."""

    rank: int
    pid: int
    parent: int | None


def collect_stacks(
    roots: Mapping[int, int],
    directory: str,
    seconds: float = SECONDS,
    find_program: Callable[[Iterable[int]], str | None] = find_py_spy,
) -> Iterator[RankStacks]:
    """Yield the Python stacks of each rank's own Python, and then those of its children, if it may wait for its data
    loader's workers or for a child. End within `seconds`, and raise nothing for the data that is read.

    roots         the process that was started for each rank; several ranks may share one
    directory     the directory in which the hook in the ranks opens their files (`inrank`)
    find_program  returns the path of py-spy, from processes whose PATH may lead to it
    """
    deadline = time.monotonic() + seconds
    found = rank_processes(roots)
    program = find_program([each.pid for each in found])
    children: list[_Wanted] = []
    by_rank: dict[int, RankProcesses] = {each.rank: each for each in found}
    own = [_Wanted(each.rank, each.pid, None) for each in found]
    for stacks in _collect(own, program, directory, deadline):
        yield stacks
        processes = by_rank[stacks.rank]
        if processes.launched or not stacks.threads or may_wait_for_children(stacks):
            children += [_Wanted(stacks.rank, pid, parent) for pid, parent in processes.children]
    yield from _collect(children, program, directory, deadline)


def _collect(wanted: Sequence[_Wanted], program: str | None, directory: str, deadline: float) -> Iterator[RankStacks]:
    """Yield the stacks of the processes `wanted`: first those that py-spy can read or that are not signalled, then
    those that write them by faulthandler."""
    problems = {each.pid: _NOT_ASKED.get(state_of(each.pid), "") for each in wanted}
    waits = {each.pid: _waits(each.pid) for each in wanted}  # reading stacks wakes threads up
    problems.update(
        {pid: "it is not a Python process" for pid, said in problems.items() if not said and not is_python(pid)}
    )
    left = {each.pid: os.path.join(directory, f"rank-{each.rank:05d}.txt") for each in wanted if not problems[each.pid]}
    held = [each.pid for each in wanted if state_of(each.pid) in _ONLY_READ and is_python(each.pid)]
    threads: dict[int, tuple[ThreadStack, ...]] = {}
    if program is None:
        problems.update(dict.fromkeys(left, "py-spy is not installed"))
    else:
        until = deadline - _SHARE_FOR_SIGNALS * max(0.0, deadline - time.monotonic())
        for pid, answer in ask_py_spy(program, [*left, *held], until).items():
            found_threads = parse_py_spy(answer.output)
            if any(thread.frames for thread in found_threads):
                threads[pid] = found_threads
                left.pop(pid, None)
            elif pid in left:  # a thread that runs while it is read may show none
                problems[pid] = answer.problem or RAN_ON
    found = [
        _stacks_of(
            each,
            PY_SPY if threads.get(each.pid) else PROC,
            threads.get(each.pid, ()),
            problems[each.pid],
            waits[each.pid],
        )
        for each in wanted
        if each.pid not in left
    ]
    yield from with_source_lines(found, deadline)
    answers = ask_by_signal(left, deadline)
    found = [
        _stacks_of(
            each,
            FAULTHANDLER if answers[each.pid].threads else PROC,
            answers[each.pid].threads,
            "; ".join(filter(None, (problems[each.pid], answers[each.pid].problem))),
            waits[each.pid],
        )
        for each in wanted
        if each.pid in left
    ]
    yield from with_source_lines(found, deadline)


def _stacks_of(
    wanted: _Wanted, source: str, threads: tuple[ThreadStack, ...], problem: str, before: int | None
) -> RankStacks:
    """Return the RankStacks of a process: the given threads, and the kernel's values for the process (state, CPU time,
    wait channel), from files whose reading never waits."""
    pid = wanted.pid
    channel = parse_wait_channel(read_if_possible(f"/proc/{pid}/wchan", _MOST_STAT))
    work = parse_proc(pid, _thread_stats(pid))
    state, command, now, after = state_of(pid), command_of(pid), time.time(), _waits(pid)
    waits = (before, after) if before is not None and after is not None else ()
    moved = parse_moved(read_if_possible(f"/proc/{pid}/io", _MOST_STAT))
    return RankStacks(
        wanted.rank, pid, now, source, threads, state, work, channel, command, wanted.parent, problem, waits, moved
    )


def collect_dumps(pids: Mapping[int, int], directory: str, seconds: float) -> Iterator[Dump]:
    """Yield the Flight Recorder dump of each rank, with a `fault` if there is none. `pids` maps each rank to its own
    Python. Reading a file may wait for a file server. Raise nothing."""
    for rank, answer in sorted(ask_recorders(pids, directory, seconds).items()):
        yield read_answer(rank, answer)


def _waits(pid: int) -> int | None:
    return parse_waits(read_if_possible(f"/proc/{pid}/task/{pid}/status", _MOST_STAT))


def _thread_stats(pid: int) -> dict[int, bytes]:
    try:
        numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task") if name.isdigit())[:_MOST_THREADS]
    except OSError:
        return {}
    return {number: read_if_possible(f"/proc/{pid}/task/{number}/stat", _MOST_STAT) for number in numbers}


class _Order(NamedTuple):
    """The order from the standard input."""

    roots: Mapping[int, int]
    directory: str
    seconds: float
    dumps: bool


def _order_of(value: Any) -> _Order:
    """Return the order to collect stacks that a JSON value contains. Raise one of PARSE_ERRORS."""
    return _Order(
        {int(rank): int(pid) for rank, pid in value["ranks"].items()},
        str(value["directory"]),
        float(value.get("seconds", SECONDS)),
        value.get("dumps") is True,
    )


def main() -> None:
    """Read the order to collect stacks from standard input, and print the stacks and dumps as lines. Exit with an error
    for an invalid order."""
    try:
        order = _order_of(json.loads(sys.stdin.buffer.read()))
    except PARSE_ERRORS as error:
        sys.exit(f"worldsize: this is not an order to collect stacks: {error!r}")
    for line in _lines(order):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _lines(order: _Order) -> Iterator[str]:
    """Yield the stacks of the ranks in `order`, and then their Flight Recorder dumps if requested, as lines of JSON,
    each as soon as it is known, within the order's seconds altogether."""
    end = time.monotonic() + order.seconds
    for_dumps = _SHARE_FOR_DUMPS * order.seconds if order.dumps else 0.0
    pids: dict[int, int] = {}
    for stacks in collect_stacks(order.roots, order.directory, order.seconds - for_dumps):
        if stacks.parent is None and stacks.state not in _SILENT:
            pids[stacks.rank] = stacks.pid
        yield stacks_line(stacks)
    if order.dumps:
        most = min(MOST_BYTES, _MOST_OF_DUMPS // max(1, len(pids)))
        for dump in collect_dumps(pids, order.directory, min(RECORDER_SECONDS, end - time.monotonic())):
            yield dump_line(dump, most)
