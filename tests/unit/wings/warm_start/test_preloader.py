"""Ranks that are forked from one Python, and what happens where that Python, or their agent, ends too early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from driver import wait_for
from preloaded_node import IS_FORKED, Node, is_alive
from pythons import supported

from worldsize.agent.posix import processes
from worldsize.wings.warm_start.agent import preloader as preloading
from worldsize.wings.warm_start.judgement import gpus

TELLS = """
import gc, json, os, sys
with open("/proc/self/cmdline") as file:
    words = file.read().split("\\0")[:-1]
forked = hasattr(gc, "get_freeze_count") and IS_FORKED
print(json.dumps({
    "argv": sys.argv, "orig": getattr(sys, "orig_argv", None), "words": words, "rank": os.environ["RANK"],
    "forked": forked, "leads": os.getsid(0) == os.getpid(), "parent": os.getppid(),
    "ours": sorted(name for name in sys.modules if "warm_start" in name), "left": "WORLDSIZE_PRELOADER" in os.environ,
    "files": sorted(os.listdir("/proc/self/fd")), "decimal": "decimal" in sys.modules,
}))
sys.exit(int(os.environ["RANK"]))
""".replace("IS_FORKED", IS_FORKED)


def told(node: Node) -> list[dict[str, object]]:
    return [json.loads(log) for log in node.logs()]


def test_ranks_are_forked(node: Node) -> None:
    node.script(TELLS)
    assert node.run(ranks=3).doubt == ""
    assert [each["rank"] for each in told(node)] == ["0", "1", "2"]
    assert node.codes == {0: 0, 1: 1, 2: 2}
    for each in told(node):
        assert each["forked"] and each["leads"] and each["decimal"] and each["parent"] == os.getpid()
        assert each["ours"] == [] and not each["left"]


WORDS = ["--rank=$RANK \"a $RANK b\" '$RANK' ''", ""]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("command", ["python -u train.py %s", "A=1 python -X dev -W ignore -m pkg.train %s"])
def test_words_are_those_of_a_plain_start(nodes: Callable[..., Node], command: str, words: str) -> None:
    found = []
    for modules in (("decimal",), ("no.such.module",)):
        node = nodes()
        for name in ("train.py", "pkg/train.py"):
            node.script(TELLS, name)
        assert (node.run(modules, command % words).doubt == "") == (modules == ("decimal",))
        found.append([{name: each[name] for name in ("argv", "orig", "words", "files")} for each in told(node)])
    warm, plain = (json.loads(json.dumps(each).replace("node-1", "node-0")) for each in found)
    assert warm == plain and len(warm) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("python", supported())
def test_each_python(nodes: Callable[..., Node], python: str) -> None:
    own = subprocess.run(
        [python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=True
    )
    node = nodes(python=own.stdout.strip())
    node.script(TELLS)
    assert node.run(command="python train.py --rank=$RANK").doubt == ""
    for rank, each in enumerate(told(node)):
        assert each["forked"] and each["argv"] == ["train.py", "--rank=%d" % rank]
        assert each["words"] == ["python", "train.py", "--rank=%d" % rank]


# who ends too early

BLOCKS = """
import os
open(os.environ["HOME"] + "/importing", "w").close()
open(os.environ["HOME"] + "/fifo").read()
"""
SCRIPT = """
import gc, os
open(os.environ["HOME"] + "/script-%d" % os.getpid(), "w").close()
print("forked" if IS_FORKED else "plain")
""".replace("IS_FORKED", IS_FORKED)


def blocked(node: Node) -> Node:
    node.script(SCRIPT)
    node.library("blocks", BLOCKS)
    os.mkfifo(node.home / "fifo")
    return node


def starts_plainly(node: Node, doubt: str) -> None:
    """Where the ranks start, they do so plainly, each once, and it is known why."""
    assert doubt in node.start().doubt
    node.wait()
    assert node.codes == {0: 0, 1: 0}
    assert node.logs() == ["plain\n", "plain\n"] and len(list(node.home.glob("script-*"))) == 2


def test_it_is_killed_as_it_imports(node: Node) -> None:
    blocked(node).prepare(["blocks"])
    wait_for((node.home / "importing").exists)
    os.kill(node.preloader, signal.SIGKILL)
    starts_plainly(node, "the process that preloads has ended")


def test_it_is_killed_before_it_forks(node: Node) -> None:
    node.script(SCRIPT)
    node.prepare()
    assert node.imported().doubt == ""
    os.kill(node.preloader, signal.SIGKILL)
    starts_plainly(node, "the process that preloads has ended")


def test_it_is_killed_between_two_forks(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: the agent did nothing for thirty seconds, since the forks that were there kept the socket open."""
    monkeypatch.setattr(preloading, "_FORKING", 100.0)
    node.script(SCRIPT)
    node.library("ends", "import os\nos.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), 9))")
    node.prepare(["ends"])
    starts_plainly(node, "the process that preloads has ended")


def test_a_fork_ends_before_it_is_a_rank(node: Node) -> None:
    node.script(SCRIPT)
    node.library("ends", "import os\nos.register_at_fork(after_in_child=lambda: os._exit(3))")
    node.prepare(["ends"])
    starts_plainly(node, "a fork ended before it was a rank")


def test_it_takes_too_long(node: Node) -> None:
    preparation = blocked(node).prepare(["blocks"])
    wait_for((node.home / "importing").exists)
    due = preparation.deadline()
    assert due is not None
    preparation.tick(due - 1)
    assert not preparation.ready
    preparation.tick(due)
    assert preparation.ready and preparation.deadline() is None
    starts_plainly(node, "not imported within 900 s")
    wait_for(lambda: not is_alive(node.preloader))


def test_the_run_ends_before(node: Node) -> None:
    preparation = blocked(node).prepare(["blocks"])
    assert list(preparation.stop()) == []
    wait_for(lambda: not is_alive(node.preloader))
    assert preparation.ready and preparation.doubt


def test_the_run_ends_before_its_ranks_start(node: Node) -> None:
    node.script(SCRIPT)
    preparation = node.prepare()
    assert node.imported().doubt == ""
    preparation.stop()
    assert is_alive(node.preloader)
    preparation.close()
    preparation.close()
    wait_for(lambda: not is_alive(node.preloader))
    assert preparation.start([]) == []


SLOW_END = """
import os
own, end = os.getpid(), os._exit
def wait(code):
    if os.getpid() == own:
        open(os.environ["HOME"] + "/ending", "w").close()
        open(os.environ["HOME"] + "/fifo").read()
    end(code)
os._exit = wait
"""


@pytest.mark.parametrize("moment", ["importing", "imported", "forked", "gone on"])
def test_the_agent_is_killed(node: Node, moment: str) -> None:
    """Nothing of it is left, and no script was executed. Found: forks waited for ever for an agent that was gone."""
    blocked(node)
    node.library("slow_end", SLOW_END)
    before = set(processes.children())
    agent = os.fork()
    if agent == 0:
        try:
            _end_as_agent(node, moment)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1]) == -signal.SIGKILL
    left = set(processes.children()) - before
    assert left
    if moment == "gone on":
        wait_for((node.home / "ending").exists)
    if moment in ("importing", "gone on"):
        (node.home / "fifo").write_text("")
    for pid in left:
        os.waitpid(pid, 0)
    wait_for(lambda: not _reaped(before))
    assert list(node.home.glob("script-*")) == [] and node.logs() in ([], ["", ""])


def _end_as_agent(node: Node, moment: str) -> None:
    processes.become_subreaper()
    preparation = node.prepare(
        ["blocks" if moment == "importing" else "slow_end" if moment == "gone on" else "decimal"]
    )
    if moment == "importing":
        wait_for((node.home / "importing").exists)
    else:
        assert node.imported().doubt == ""
    if moment == "forked":
        preparation.go = lambda count: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    if moment in ("forked", "gone on"):
        node.start()
    os.kill(os.getpid(), signal.SIGKILL)


def _reaped(before: set[int]) -> set[int]:
    """The children that are left, after those that have ended are reaped."""
    for pid in set(processes.children()) - before:
        os.waitpid(pid, os.WNOHANG)
    return set(processes.children()) - before


# what Python is that


def test_a_node_with_gpus(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_DEVICES", ("/none", os.devnull))
    node.script(SCRIPT)
    assert "this node has GPUs" in node.prepare(automatic=True).doubt
    node.preparation = None
    assert node.prepare(automatic=False).doubt == ""


def test_a_python_that_is_a_script(node: Node) -> None:
    (node.programs / "python").unlink()
    (node.programs / "python").write_text('#!/bin/sh\nexec %s "$@"\n' % sys.executable)
    (node.programs / "python").chmod(0o700)
    node.script(SCRIPT)
    assert node.prepare().doubt == "%s is a script" % (node.programs / "python") and node.preloader == 0
    starts_plainly(node, "is a script")


def test_a_run_without_a_hook(node: Node) -> None:
    Path(node.paths.inrank, "sitecustomize.py").unlink()
    node.script(SCRIPT)
    node.prepare()
    starts_plainly(node, "no hook")


def test_a_run_without_the_package(node: Node) -> None:
    """As on a node that reads the run's files by a network file system, and badly."""
    Path(node.paths.inrank, "worldsize_inrank", "warm_start", "checks.py").unlink()
    node.script(SCRIPT)
    node.prepare()
    starts_plainly(node, "has ended")


def test_a_shell_that_stays(node: Node) -> None:
    """`bash` executes a last command in its own place, but for a trap."""
    (node.home / "env").write_text("trap 'true' EXIT\n")
    node.script(SCRIPT)
    node.prepare(BASH_ENV=str(node.home / "env"))
    starts_plainly(node, "shell")


def test_a_python_that_is_not_there(node: Node) -> None:
    node.script(SCRIPT)
    assert node.prepare(command="/no/such/python train.py").doubt != ""


DAEMON = """
import os, pathlib, subprocess
silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
process = subprocess.Popen(["sleep", "1000"], close_fds=False, start_new_session=True, **silent)
pathlib.Path(%r).write_text(str(process.pid))
os._exit(3)
"""
"""A program of a session of its own, before the process that has started it, and its group, end."""


def test_what_a_module_starts_inherits_nothing_of_this(node: Node) -> None:
    """Found: a program that a module had started kept the socket open, so that nobody saw the end of its starter."""
    pid = node.home / "pid"
    node.library("daemon", DAEMON % str(pid))
    node.script(SCRIPT)
    node.prepare(["daemon"])
    starts_plainly(node, "has ended")
    files = [str(each.readlink()) for each in Path("/proc", pid.read_text().strip(), "fd").iterdir()]
    assert not [each for each in files if each.startswith("socket:") or "rank-0" in each]
    os.kill(int(pid.read_text()), signal.SIGTERM)


@pytest.mark.parametrize("value", ["5", "", "x", "0", "999999", "-1"])
def test_a_process_that_nobody_has_asked_to_import_is_no_success(node: Node, value: str) -> None:
    """Found in review: it ended with 0, as a rank does whose training is done."""
    node.script("print('trained')")
    environ = {"PYTHONPATH": os.path.join(node.paths.root, "inrank"), "WORLDSIZE_PRELOADER": value}
    words = [sys.executable, os.path.join(node.paths.code, "train.py")]
    done = subprocess.run(words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (71, "")
