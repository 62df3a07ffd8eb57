"""Ranks that the agent has forked are ranks as any, and ranks that could not be forked are started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.agent.launchers.rank_process import NodeLaunch, Process
from worldsize.agent.posix import processes
from worldsize.agent.supervision import rank_processes
from worldsize.agent.supervision.rank_processes import Leftover, RankProcesses, leftover_of
from worldsize.agent.supervision.supervisor import _start_of
from worldsize.plan.plan import Plan, RankStart, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Reason


class Forks:
    """Forks processes of this one, which go on once they are told to. `told`: what it was asked for, in order."""

    def __init__(self, doubt: str = "", codes: Sequence[int] = (0, 0)) -> None:
        self.doubt = doubt
        self.codes = codes
        self.told: list[object] = []
        self.reading, self.writing = os.pipe()

    def start(self, ranks: Sequence[Process]) -> list[int]:
        self.told.append([rank.ranks[0] for rank in ranks])
        return [] if self.doubt else [self._fork(rank, code) for rank, code in zip(ranks, self.codes, strict=True)]

    def _fork(self, rank: Process, code: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.setsid()
        os.close(self.writing)
        if os.read(self.reading, 1) == b"g":
            Path(rank.log).write_text("forked\n")
        os._exit(code)

    def go(self, count: int) -> None:
        self.told.append(count)
        os.write(self.writing, b"g" * count)

    def close(self) -> None:
        self.told.append("closed")


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeLaunch:
    monkeypatch.chdir(tmp_path)
    paths = RunPaths(str(tmp_path / "run"))
    for each in paths.directories():
        os.makedirs(each, exist_ok=True)
    start = RankStart(("json",), False, "they are named")
    argv = ("sh", "-c", "echo plain")
    plan = Plan("run-7", "t", "local", 1.5, 0, node_major_layout(1, 2), argv, {}, start=start)
    world = RendezvousResult("127.0.0.1", 29871, (Host("here", 2),))
    return NodeLaunch(plan, world, plan.nodes[0], paths, {"PATH": os.defpath})


def ended(ranks: RankProcesses, count: int) -> list[tuple[tuple[int, ...], int]]:
    found: list[tuple[tuple[int, ...], int]] = []

    def all_have() -> bool:
        found.extend((each.process.ranks, each.code) for each in ranks.reap(False))
        return len(found) == count

    wait_for(all_have)
    return sorted(found)


def logs(launch: NodeLaunch) -> list[str]:
    return [Path(launch.paths.rank_log(rank)).read_text() for rank in range(2)]


def test_forked_ranks_are_ranks(launch: NodeLaunch) -> None:
    ranks, forks = RankProcesses(), Forks(codes=(0, 5))
    assert ranks.start_all(launch._replace(forks=forks)) is None
    assert forks.told == [[0, 1], 2, "closed"]
    assert len(ranks.running()) == 2 and list(ranks.pids) == list(ranks.running())
    assert ranks.pids_and_cpus() == {"pids": dict(enumerate(ranks.running()))}
    assert _start_of(launch._replace(forks=forks)) == {"start": "warm"}
    assert ended(ranks, 2) == [((0,), 0), ((1,), 5)] and logs(launch) == ["forked\n"] * 2
    assert sorted((each.rank, each.code) for each in ranks.exits) == [(0, 0), (1, 5)]
    assert len(ranks.pids) == 2 and not ranks


def test_ranks_that_are_not_forked_are_started(launch: NodeLaunch) -> None:
    ranks, forks = RankProcesses(), Forks("no module")
    assert ranks.start_all(launch._replace(forks=forks)) is None
    assert forks.told == [[0, 1], 0, "closed"] and _start_of(launch._replace(forks=forks)) == {"start": "plain"}
    assert ended(ranks, 2) == [((0,), 0), ((1,), 0)] and logs(launch) == ["plain\n"] * 2


def test_ranks_that_nothing_was_imported_for(launch: NodeLaunch) -> None:
    ranks = RankProcesses()
    assert ranks.start_all(launch) is None and _start_of(launch) == {}
    assert ended(ranks, 2) == [((0,), 0), ((1,), 0)]


def test_forked_ranks_are_terminated_with_their_groups(launch: NodeLaunch) -> None:
    ranks, forks = RankProcesses(), Forks()
    forks.go = lambda count: None  # type: ignore[method-assign]
    assert ranks.start_all(launch._replace(forks=forks)) is None
    for pid in ranks.running():
        wait_for(lambda pid=pid: os.getpgid(pid) == pid)
    ranks.kill()
    assert [code for _, code in ended(ranks, 2)] == [137, 137]


def test_nothing_waits_for_ranks_that_cannot_be_started(launch: NodeLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: the process that had imported their modules went on as a leftover of theirs."""

    def fails(launch: NodeLaunch) -> NodeLaunch:
        raise OSError(28, "no space")

    monkeypatch.setattr(rank_processes, "prepare_launch", fails)
    forks = Forks()
    failure = RankProcesses().start_all(launch._replace(forks=forks))
    assert failure is not None and forks.told == ["closed"]


def test_a_program_that_is_not_there_fails_as_ever(launch: NodeLaunch) -> None:
    plan = launch.plan._replace(argv=("no-such-program",))
    failure = RankProcesses().start_all(launch._replace(plan=plan, forks=Forks("it is not there")))
    assert failure is not None and failure.code == 127 and failure.reason == Reason.EXIT_CODE


# what they leave


@pytest.fixture
def leave(tmp_path: Path) -> Iterator[Callable[..., tuple[int, int]]]:
    """Starts a leader of a session that starts a program: the numbers of both. All are ended."""
    pids: list[int] = []

    def start(inner: str = "sleep 1000", **environment: str) -> tuple[int, int]:
        file = tmp_path / ("pid-%d" % len(pids))
        script = "%s & echo $! >%s; wait" % (inner, file)
        leader = processes.spawn("/bin/sh", ("sh", "-c", script), {"PATH": os.defpath, **environment}, os.devnull)
        pids.append(leader)
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        pids.append(int(file.read_text()))
        wait_for(lambda: processes.command_line(pids[-1])[:1] == ("sleep",))
        return leader, pids[-1]

    yield start
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


WORDS = ("sleep", "1000")


@pytest.mark.parametrize(
    ("started", "environment", "rank"),
    [
        ((5,), {}, 5),
        ((5,), {"WORLDSIZE_RANK": "0"}, 5),  # a fork has in /proc what was common to all
        ((), {"WORLDSIZE_RANK": "3"}, 3),
        ((4, 5), {"WORLDSIZE_RANK": "3"}, 3),  # a launcher's, which stands for several
        ((4, 5), {}, None),
        ((), {}, None),
    ],
)
def test_a_leftover_is_of_the_rank_that_leads_its_session(
    leave: Callable[..., tuple[int, int]], started: tuple[int, ...], environment: dict[str, str], rank: int | None
) -> None:
    leader, left = leave(**environment)
    assert leftover_of(left, {leader: started} if started else {}) == Leftover(WORDS, rank)


def test_a_leftover_in_a_session_of_its_own(leave: Callable[..., tuple[int, int]]) -> None:
    leader, left = leave("setsid sleep 1000", WORLDSIZE_RANK="2")
    wait_for(lambda: os.getsid(left) == left)
    assert leftover_of(left, {leader: (5,)}) == Leftover(WORDS, 2)
