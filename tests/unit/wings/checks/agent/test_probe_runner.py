"""The probes of a node run in processes of their own: one that hangs, dies or raises is unknown alone."""

import os
import signal
import time

import pytest

from worldsize.state.check_rows import OK, UNKNOWN
from worldsize.wings.checks.agent import probe_runner
from worldsize.wings.checks.agent.node_checks import NODE_CHECKS, NodeCheck
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.probe_runner import load_probe, run_probes

CONTEXT = NodeContext(0, 1, "n0", "n0", "/run", {})


def find(context):
    return ProbeResult((context.row("a.good", "a", "1", OK),), {"fact": [1, {"two": 3}]})


def fail(context):
    raise ValueError("no such thing")


def hang(context):
    while True:
        signal.pause()


def die(context):
    os.kill(os.getpid(), signal.SIGKILL)


def say_too_much(context):
    return ProbeResult((), {"fact": "x" * (1 << 20)})


def say_what_is_no_row(context):
    return ProbeResult((context.row("a", "b", "c", "splendid"),))


PROBES = {"find": find, "fail": fail, "hang": hang, "die": die, "much": say_too_much, "strange": say_what_is_no_row}


@pytest.fixture(params=["", "all"], ids=["each alone", "in one process"])
def run(request, monkeypatch):
    monkeypatch.setattr(probe_runner, "_PATIENCE", 0.1)
    return lambda *modules, limit=30.0: run_them(*modules, limit=limit, group=request.param)


def run_them(*modules, limit=30.0, group="all"):
    checks = [NodeCheck(name, ("of." + name,), name, limit, group=group) for name in modules]
    return run_probes(CONTEXT, checks, PROBES.__getitem__)


def test_what_a_probe_has_met_is_told_without_secrets():
    met = OSError("https://me:hunter2@proxy:3128 \x1b[2J" + "x" * 500)
    assert probe_runner.error_text(met).startswith("OSError: https://me:***@proxy:3128 \\x1b[2Jx")
    assert len(probe_runner.error_text(met)) == 200


def test_rows_and_facts_come_back(run):
    found = run("find")
    assert found == ProbeResult((CONTEXT.row("a.good", "a", "1", OK),), {"fact": [1, {"two": 3}]})


def test_no_probe_is_no_work():
    assert run_probes(CONTEXT, []) == ProbeResult()


def test_a_probe_that_fails_is_unknown_alone_and_says_why(run):
    found = run("fail", "die", "much", "strange", "find")
    assert [(row.id, row.verdict) for row in found.rows] == [
        ("of.fail", UNKNOWN),
        ("of.die", UNKNOWN),
        ("of.much", UNKNOWN),
        ("of.strange", UNKNOWN),
        ("a.good", OK),
    ]
    assert found.rows[0].hint == "ValueError: no such thing"
    assert found.facts == {"fact": [1, {"two": 3}]}


@pytest.mark.heavy
def test_a_probe_that_hangs_is_late_alone_and_ended(run):
    before = time.monotonic()
    found = run("hang", "find", limit=0.5)
    assert found.rows[0] == CONTEXT.row("of.hang", "hang", "unknown", UNKNOWN, "it took more than 0.5 s")
    assert found.rows[1].verdict == OK or found.rows[1].hint.startswith("it took")
    assert time.monotonic() - before < 20


def test_probes_for_which_there_is_no_process_are_unknown(monkeypatch):
    """Found: the node program ended, and with it the whole check of its node."""
    before = len(os.listdir("/proc/self/fd"))
    fork, forks = os.fork, []

    def fork_once():
        forks.append(1)
        if len(forks) > 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", fork_once)
    found = run_them("find", "hang", "die", group="")
    assert [(row.id, row.verdict) for row in found.rows] == [
        ("a.good", OK),
        ("of.hang", UNKNOWN),
        ("of.die", UNKNOWN),
    ]
    assert found.rows[1].hint == "cannot be started: Resource temporarily unavailable"
    assert len(os.listdir("/proc/self/fd")) == before


def own_process(context):
    return ProbeResult((), {"pid %d" % os.getpid(): 1})


@pytest.mark.heavy
def test_quick_probes_share_a_process_until_one_takes_long(monkeypatch):
    for name in ("one", "two", "three"):
        monkeypatch.setitem(PROBES, name, own_process)
    monkeypatch.setattr(probe_runner, "_PATIENCE", 60.0)
    assert len(run_them("one", "two", "three").facts) == 1
    assert len(run_them("one", "two", "three", group="").facts) == 3
    monkeypatch.setattr(probe_runner, "_PATIENCE", 0.1)
    assert len(run_them("one", "hang", "two", "three", limit=2.0).facts) == 3


def test_a_slow_probe_that_others_did_not_wait_for_is_heard(monkeypatch):
    monkeypatch.setattr(probe_runner, "_PATIENCE", 0.0)
    assert run_them("find", "fail", "find").facts == {"fact": [1, {"two": 3}]}


def test_the_groups_of_the_table_take_no_longer_than_their_probes():
    groups = {check.group for check in NODE_CHECKS if check.group}
    limits = [{check.limit for check in NODE_CHECKS if check.group == group} for group in groups]
    assert all(len(each) == 1 for each in limits) and all(check.cheap for check in NODE_CHECKS if check.group)


def test_every_probe_of_the_table_can_be_loaded():
    for check in NODE_CHECKS:
        assert callable(load_probe(check.module))
