"""One call of the command of `notify`: real processes, which end, hang, print and leave others behind."""

from __future__ import annotations

import os
import signal

import pytest
from driver import wait_for

from worldsize.agent.posix import processes
from worldsize.wings.notify.agent.command import MOST_PRINTED, call_command

ENVIRON = {"PATH": os.environ["PATH"], "GREETING": "hello"}

pytestmark = pytest.mark.heavy


def test_it_has_the_text_on_its_standard_input_and_the_environment_and_what_it_prints_is_kept():
    call = call_command('read line; echo "$GREETING $line"; echo no >&2', "world\n", ENVIRON)
    assert (call.code, call.printed) == (0, b"hello world\nno\n")


@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [("exit 3", 3, b""), ("nosuch", 127, b"nosuch: command not found"), ("kill -9 $$", 137, b""), ("if", 2, b"syntax")],
)
def test_one_that_fails(command, code, printed):
    call = call_command(command, "x" * 4000, ENVIRON)
    assert call.code == code and printed in call.printed


@pytest.mark.parametrize("command", ["%s", "exec 1>&- 2>&-; %s", "%s & wait", "trap '' TERM; while :; do %s; done"])
def test_one_that_hangs_is_ended_with_all_that_it_has_started(command, tmp_path):
    pids = tmp_path / "pids"
    script = "echo $$ >> %s; %s" % (pids, command % "sleep 600")
    call = call_command(script, "", ENVIRON, limit=0.5)
    assert call.code is None and 0.5 <= call.seconds < 30
    wait_for(lambda: not group_of(int(pids.read_text())))


def test_what_one_leaves_in_the_background_is_ended_with_it(tmp_path):
    pids = tmp_path / "pids"
    call = call_command("echo $$ >> %s; sleep 600 & echo done" % pids, "", ENVIRON)
    assert (call.code, call.printed) == (0, b"done\n") and call.seconds < 30
    wait_for(lambda: not group_of(int(pids.read_text())))


def test_of_one_that_prints_without_end_the_beginning_is_kept():
    call = call_command("yes", "", ENVIRON, limit=0.5)
    assert call.code is None and call.printed == (b"y\n" * MOST_PRINTED)[:MOST_PRINTED]


def test_what_ends_a_run_does_not_end_it():
    """The process that calls it ignores what a scheduler sends to all processes of a run."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        call = call_command("kill -TERM $$; kill -HUP $$; echo told", "", ENVIRON)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (call.code, call.printed) == (0, b"told\n")


def test_without_bash_there_is_no_call():
    with pytest.raises(OSError, match="command not found"):
        call_command("true", "", {"PATH": "/nowhere"})


def group_of(leader):
    """What lives of the process group."""
    living = []
    for name in os.listdir("/proc"):
        fields = processes.stat_fields(int(name)) if name.isdigit() else None
        if fields is not None and int(fields[2]) == leader and fields[0] not in b"ZX":
            living.append(int(name))
    return living
