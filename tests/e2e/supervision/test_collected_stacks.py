"""The stacks of real ranks: by py-spy, by faulthandler, or only what the kernel tells."""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driver import Cli
from hooked_ranks import READY, WAITS, HookedRanks, collect, ranks
from local_runs import until

from worldsize.wings.hangs.agent import py_spy, signal_dumps, stack_collector
from worldsize.wings.hangs.agent.rank_pythons import state_of
from worldsize.wings.hangs.inrank import SIGNALS_BELOW_LAST
from worldsize.wings.hangs.judgement.stacks.collective_waits import wait_of_process
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks, parse_stacks_line
from worldsize.wings.hangs.judgement.stacks.stack_groups import group_line, group_ranks, process_words

__all__ = ["ranks"]

SOURCE = Path(stack_collector.__file__).parents[4]
SLEEPS = "import time\n%stime.sleep(1000)\n" % READY
IN_C = "import ctypes\ndef call():\n    %s    ctypes.PyDLL(None).sleep(1000)\ncall()\n" % READY
MATCHES = "import re\n%sre.match('(a+)+$', 'a' * 60 + 'b')\n" % READY
LOADS = """
import time
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        print('ready', flush=True)
        time.sleep(1000)
def main():
    for batch in DataLoader(Samples(), num_workers=2):
        pass
main()
"""
FORKS = (
    """
import os, time
child = os.fork()
if child:
    os.waitpid(child, 0)
%stime.sleep(1000)
"""
    % READY
)


def own_py_spy() -> str | None:
    return py_spy.find_py_spy([])


with_py_spy = pytest.mark.skipif(own_py_spy() is None, reason="py-spy is not installed: requirements/test.txt")


def settled(ranks: HookedRanks, program: str | None, kind: str) -> list[RankStacks]:
    """What is found once a rank has come to where it waits."""

    def found() -> list[RankStacks] | None:
        stacks = collect(ranks, program)
        return stacks if any(wait_of_process(each).kind == kind for each in stacks) and not prints(stacks) else None

    return until(found)


def is_settled(found: list[RankStacks]) -> bool:
    return all(wait_of_process(each).kind is not None for each in found) and not prints(found)


def prints(found: list[RankStacks]) -> bool:
    """Whether a rank was still on its second line, which prints `ready`, when its stack was taken: how it waits is
    looked at a moment later."""
    return any(process_words(each).endswith(".py:2 in <module>") for each in found)


def programs() -> list[object]:
    return [pytest.param(None, id="faulthandler"), pytest.param(own_py_spy(), id="py-spy", marks=with_py_spy)]


@pytest.mark.parametrize("program", programs())
def test_all_ranks_of_a_node_at_once(ranks: HookedRanks, program: str | None) -> None:
    for source in (SLEEPS, WAITS, WAITS):
        ranks.start(source)
    stacks = until(lambda: found if is_settled(found := collect(ranks, program)) else None)
    assert {each.source for each in stacks} == {"faulthandler" if program is None else "py-spy"}
    assert [each.pid for each in stacks] == [ranks.roots[rank] for rank in range(3)]
    assert [group_line(group) for group in group_ranks(stacks)] == [
        "rank 0: sleeps in sleep at rank0.py:3 in <module>",
        "ranks 1-2: wait for a lock in %swait at rank1.py:3 in <module>" % ("Condition." if program else ""),
    ]
    assert all(each.work and each.state == "S" and ranks.is_alive(each.rank) for each in stacks)


@pytest.mark.parametrize("program", programs())
@pytest.mark.parametrize("source", [IN_C, MATCHES], ids=["call of C", "regular expression"])
def test_a_rank_that_holds_pythons_lock_in_c(ranks: HookedRanks, program: str | None, source: str) -> None:
    ranks.start(source)
    (stacks,) = collect(ranks, program)
    assert stacks.source == ("faulthandler" if program is None else "py-spy")
    assert "rank0.py:" in process_words(stacks)
    thread = stacks.main_thread
    assert thread is not None and (program is None or until(lambda: holds_lock(ranks, program)))


def holds_lock(ranks: HookedRanks, program: str | None) -> bool:
    thread = collect(ranks, program)[0].main_thread
    return thread is not None and bool(thread.holds_gil)


@pytest.mark.parametrize("program", programs())
def test_a_stopped_rank_is_read_and_not_asked(ranks: HookedRanks, program: str | None) -> None:
    ranks.start(WAITS)
    ranks.signal(0, signal.SIGSTOP)
    until(lambda: state_of(ranks.roots[0]) == "T")
    (stopped,) = collect(ranks, program)
    assert stopped.source == ("proc" if program is None else "py-spy")
    assert process_words(stopped).startswith("is stopped (SIGSTOP)")
    assert state_of(ranks.roots[0]) == "T", "it was not let go on"
    ranks.signal(0, signal.SIGCONT)
    (stacks,) = settled(ranks, program, "lock")
    assert process_words(stacks).endswith("at rank0.py:3 in <module>")


@pytest.mark.parametrize("program", programs())
def test_the_workers_of_a_data_loader(ranks: HookedRanks, program: str | None) -> None:
    pytest.importorskip("torch")
    ranks.start(LOADS, count=2)
    main, *workers = settled(ranks, program, "loader")
    assert main.parent is None and process_words(main).startswith("waits for the workers of its DataLoader at rank0.py")
    asleep = until(lambda: [each for each in collect(ranks, program)[1:] if wait_of_process(each).kind == "sleep"])
    assert {each.parent for each in [*workers, *asleep]} == {main.pid}
    assert process_words(asleep[0]).startswith("sleeps in sleep at rank0.py:9 in ")


@pytest.mark.parametrize("program", programs())
def test_a_forked_child_that_its_parent_waits_for(ranks: HookedRanks, program: str | None) -> None:
    ranks.start(FORKS)
    waits = "waits for a child process in waitpid at rank0.py:5 in <module>"

    def found() -> list[RankStacks] | None:
        stacks = collect(ranks, program)
        return stacks if len(stacks) == 2 and process_words(stacks[0]) == waits else None

    main, child = until(found)
    assert (main.pid, child.parent) == (ranks.roots[0], main.pid)
    assert "rank0.py:" in process_words(child)


@pytest.mark.parametrize("program", programs())
def test_a_rank_that_is_a_shell(ranks: HookedRanks, program: str | None) -> None:
    ranks.start(SLEEPS, "sh", "-c", "%s {}; true" % sys.executable)
    ranks.start(READY, "sh", "-c", "echo ready; sleep 1000; true")
    stacks = until(lambda: found if len(found := settled(ranks, program, "sleep")) == 3 else None)
    assert process_words(stacks[0]) == "sleeps in sleep at rank0.py:3 in <module>"
    assert stacks[0].pid != ranks.roots[0] and stacks[0].parent is None
    assert (stacks[1].command, stacks[1].source, stacks[1].problem) == ("sh", "proc", "it is not a Python process")
    assert [each.command for each in stacks[2:]] == ["sleep"], "what the shell waits for"


LAUNCHES = """
import os, subprocess, sys
def start(rank):
    path = os.environ["WORLDSIZE_ERROR_FILE"].replace("00000", "%05d" % rank)
    environ = dict(os.environ, WORLDSIZE_RANK=str(rank), WORLDSIZE_ERROR_FILE=path)
    return subprocess.Popen([sys.executable, sys.argv[1]], env=environ)
for child in [start(rank) for rank in (0, 1)]:
    child.wait()
"""


@pytest.mark.parametrize("program", programs())
def test_ranks_of_one_launcher(ranks: HookedRanks, tmp_path: Path, program: str | None) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text(LAUNCHES)
    ranks.start(WAITS, sys.executable, str(launcher), "{}", count=2)
    ranks.roots[1] = ranks.roots[0]
    stacks = until(lambda: found if is_settled(found := collect(ranks, program)) else None)
    assert [(each.rank, process_words(each).partition(" at ")[2]) for each in stacks] == [
        (0, "rank0.py:3 in <module>"),
        (1, "rank0.py:3 in <module>"),
    ]
    assert stacks[0].pid != stacks[1].pid and ranks.roots[0] not in (stacks[0].pid, stacks[1].pid)
    del ranks.roots[1]
    first, *others = collect(ranks, program)
    assert first.parent is None and {each.parent for each in others} == {ranks.roots[0]}, "a rank that launches its own"


def test_the_ranks_of_a_run_are_ready_and_its_agent_has_the_program(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    with cli.start("run", "-w", "1x2", "--", "python", "train.py") as process:
        events = until(lambda: glob.glob(cli.home + "/runs/*/attempt-0/events/node-0000.jsonl"))[0]
        started = until(lambda: [each for each in map(json.loads, open(events)) if each["event"] == "ranks_started"])
        root = Path(events).parents[2]
        order = {"ranks": started[0]["pids"], "directory": str(root / "attempt-0" / "stacks")}
        words = [sys.executable, "-I", "-S", "-c", stack_collector.PROGRAM, str(root / "agent.pyz")]

        def found() -> list[RankStacks] | None:
            done = subprocess.run(words, input=json.dumps(order), capture_output=True, text=True, check=True, env={})
            stacks = [each for each in map(parse_stacks_line, done.stdout.splitlines()) if each is not None]
            return stacks if is_settled(stacks) else None

        stacks = until(found)
        assert [each.rank for each in stacks] == [0, 1] and all(each.threads for each in stacks)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_no_process_gets_the_signal_that_does_not_expect_it(ranks: HookedRanks) -> None:
    assert signal_dumps.SIGNALS_BELOW_LAST == SIGNALS_BELOW_LAST
    ranks.start(WAITS, sys.executable, "-E", "{}")
    ranks.start("import os\nos.closerange(3, 100)\nkept = open('/dev/null')\n" + WAITS)
    ranks.start("import signal\nsignal.pthread_sigmask(0, [signal.SIGRTMAX - 3])\n" + WAITS)
    stacks = collect(ranks, None)
    assert [(each.source, each.problem) for each in stacks] == [
        ("proc", "py-spy is not installed; faulthandler is not registered in it"),
        ("proc", "py-spy is not installed; its file for faulthandler is not open in it"),
        ("proc", "py-spy is not installed; its main thread blocks the signal of faulthandler"),
    ]
    assert all(ranks.is_alive(rank) for rank in range(3))
    assert all(process_words(each).startswith("shows no stack of Python") for each in stacks)


def test_a_handler_that_was_there_stays_and_a_full_file_system_ends_no_rank(ranks: HookedRanks) -> None:
    ranks.start(SLEEPS, WORLDSIZE_ERROR_FILE="/proc/nowhere/errors/rank-00000.json")
    handled = "import signal, sys\nprint(signal.getsignal(signal.SIGRTMAX - 3) in (0, None), flush=True)\n"
    out = subprocess.run([sys.executable, "-c", handled], capture_output=True, text=True, check=True).stdout
    assert out == "True\n", "faulthandler registers none that Python knows"
    assert ranks.is_alive(0)
    assert [each.source for each in collect(ranks, None)] == ["proc"]


def execute(ranks: HookedRanks, *before: str, path: str = "/usr/bin:/bin") -> list[RankStacks]:
    """What the program finds, executed beside the ranks as an agent does."""
    order = json.dumps({"ranks": ranks.roots, "directory": str(ranks.directory), "seconds": 30})
    words = [*before, sys.executable, "-I", "-S", "-c", stack_collector.PROGRAM, str(SOURCE)]
    done = subprocess.run(words, input=order, capture_output=True, text=True, check=True, env={"PATH": path})
    found = [parse_stacks_line(line) for line in done.stdout.splitlines()]
    return [each for each in found if each is not None]


def test_the_program_tells_each_process_on_a_line(ranks: HookedRanks) -> None:
    ranks.start(WAITS)
    (stacks,) = execute(ranks)
    assert stacks.threads and stacks.rank == 0
    bad = [sys.executable, "-I", "-S", "-c", stack_collector.PROGRAM, str(SOURCE)]
    done = subprocess.run(bad, input="{}", capture_output=True, text=True)
    assert done.returncode == 1 and "this is not an order" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv")
@pytest.mark.parametrize("rank_too", [True, False], ids=["of both", "of the collector alone"])
def test_without_the_right_to_trace(ranks: HookedRanks, rank_too: bool) -> None:
    """Who has no right that the rank lacks may read it, without Yama; who has fewer rights than the rank may not."""
    dropped = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    ranks.start(WAITS, *(dropped if rank_too else ["env"]), sys.executable, "{}")
    program = own_py_spy()
    path = "/usr/bin:/bin" if program is None else os.pathsep.join([os.path.dirname(program), "/usr/bin:/bin"])
    (stacks,) = execute(ranks, *dropped, path=path)
    assert stacks.threads and ranks.is_alive(0)
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    if program is not None and not rank_too:
        assert stacks.source == "faulthandler" and "Permission denied" in stacks.problem
    elif program is not None and not yama.exists():
        assert stacks.source == "py-spy"
