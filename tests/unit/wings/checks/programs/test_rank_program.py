"""Processes that measure with the job's Python: what they report, and that nothing of them is left."""

import os
import sys
import tempfile
import time

import pytest

from worldsize.wings.checks.agent.programs.rank_program import RankProgram
from worldsize.wings.checks.agent.programs.torch_programs import COLLECTIVE

SAY = "import json, os, sys, time\ndef say(**found): print('worldsize-check', json.dumps(found), flush=True)\n"


def started(program, *arguments, environ=None):
    return RankProgram(sys.executable, SAY + program, arguments, os.environ if environ is None else environ)


def soon(seconds=20.0):
    return time.monotonic() + seconds


def test_later_lines_add_to_earlier_ones():
    program = started("say(stage='a', port=1); print('NCCL INFO'); say(stage='b')")
    assert program.wait(soon())
    assert program.stop() == {"stage": "b", "port": 1}


def test_it_is_told_and_waited_for():
    program = started("say(got=sys.stdin.readline().strip())")
    program.tell("4711")
    assert program.wait_for("got", soon()) == "4711"
    assert program.wait_for("never", soon()) is None
    assert program.stop() == {"got": "4711"}


def test_what_does_not_end_is_ended_with_all_that_it_has_started():
    program = started("pid = os.fork()\nif pid: say(child=pid)\ntime.sleep(100)")
    child = program.wait_for("child", soon())
    assert not program.wait(time.monotonic())
    report = program.stop()
    assert report["silent"] >= 0.0
    assert _ends(child)


@pytest.mark.heavy
def test_a_child_that_holds_the_output_is_not_waited_for():
    text = "import subprocess\nsay(child=subprocess.Popen(['sleep', '30'], start_new_session=True).pid)\nos._exit(0)"
    program = started(text)
    child = program.wait_for("child", soon())
    began = time.monotonic()
    report = program.stop()
    os.kill(child, 9)
    assert report["child"] == child
    assert time.monotonic() - began < 10


def _ends(pid):
    """A killed process may be a zombie of another parent for a moment."""
    deadline = soon()
    while time.monotonic() < deadline:
        try:
            with open("/proc/%d/stat" % pid) as file:
                if file.read().rpartition(") ")[2][0] == "Z":
                    return True
        except OSError:
            return True
    return False


def test_the_last_words_of_one_that_fails_are_its_error():
    program = started("say(stage='a'); raise KeyError('x\\x1b[31m')")
    assert program.wait(soon())
    assert program.stop() == {"stage": "a", "error": "KeyError: 'x\\x1b[31m'"}


def test_one_that_is_killed_without_a_word_has_its_exit_code():
    program = started("os.kill(os.getpid(), 9)")
    assert program.wait(soon())
    assert program.stop()["error"] == "ended with exit code -9"


@pytest.mark.parametrize(
    "output",
    [
        "'worldsize-check [1]'",
        "'worldsize-check {'",
        "'worldsize-check ' + '9' * 5000",
        "'worldsize-check ' + '[' * 60000",
    ],
)
def test_lines_that_are_no_report_are_no_matter(output):
    program = started("print(%s); say(stage='b')" % output)
    assert program.wait(soon())
    assert program.stop() == {"stage": "b"}


def test_output_without_end_is_read_and_not_kept():
    program = started("sys.stdout.write('x' * (3 << 20)); print(); say(stage='late')")
    assert program.wait(soon())
    assert program.stop() == {}


def test_errors_without_end_are_read_and_nothing_of_them_goes_to_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    program = started("sys.stderr.write('x\\n' * (3 << 20)); sys.exit('the last words')")
    assert program.wait(soon())
    assert program.stop() == {"error": "the last words"}


def test_a_python_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError):
        RankProgram("nonesuch", "", (), {"PATH": "/nowhere"})


def test_the_collective_tells_that_there_is_no_torch_and_ends_with_its_lifeline(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "torch.py").write_text("raise ImportError('libcuda.so')")
    program = RankProgram(sys.executable, COLLECTIVE, ["0", "2", "0", "5", "gloo", "127.0.0.1", "8"], environ)
    assert program.wait(soon())
    assert program.stop() == {"stage": "started", "error": "ImportError: libcuda.so"}
    (tmp_path / "torch.py").write_text("import time; time.sleep(100)")
    program = RankProgram(sys.executable, COLLECTIVE, ["0", "2", "0", "5", "gloo", "127.0.0.1", "8"], environ)
    assert program.wait_for("stage", soon()) == "started"
    program._process.stdin.close()
    assert program.wait(soon())
    assert program.stop()["error"] == "ended with exit code 1"
