"""The probes of a node run in processes of their own: one that hangs, dies or raises is unknown alone."""

import os
import signal
import time

from worldsize.state.check_rows import OK, UNKNOWN
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


def run(*modules, limit=30.0):
    checks = [NodeCheck(name, ("of." + name,), name, limit) for name in modules]
    return run_probes(CONTEXT, checks, PROBES.__getitem__)


def test_rows_and_facts_come_back():
    found = run("find")
    assert found == ProbeResult((CONTEXT.row("a.good", "a", "1", OK),), {"fact": [1, {"two": 3}]})


def test_no_probe_is_no_work():
    assert run_probes(CONTEXT, []) == ProbeResult()


def test_a_probe_that_fails_is_unknown_alone_and_says_why():
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


def test_a_probe_that_hangs_is_late_alone_and_ended():
    before = time.monotonic()
    found = run("hang", "find", limit=0.3)
    assert found.rows[0] == CONTEXT.row("of.hang", "hang", "not known", UNKNOWN, "it took more than 0.3 s")
    assert found.rows[1].verdict == OK or found.rows[1].hint.startswith("it took")
    assert time.monotonic() - before < 20


def test_every_probe_of_the_table_can_be_loaded():
    for check in NODE_CHECKS:
        assert callable(load_probe(check.module))
