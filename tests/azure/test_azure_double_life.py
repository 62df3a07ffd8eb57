"""Doubles beside each other, and that nothing of one is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double import address
from azureml_double.double import Double, DoubleError, until

pytestmark = pytest.mark.exhaustive

STARTS = """
import sys
from azureml_double.double import Double, until
double = Double.start(sys.argv[1])
double.submit("job", "setsid sleep 4321 & echo $! $$ > outputs/pids; sleep 4321", outputs={})
double.wait("job", "Running")
print(double.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Double]:
    """A double of the test's own."""
    double = Double.start(str(tmp_path))
    yield double
    double.stop()


def processes_of(folder: Path) -> set[int]:
    """Those that work below the folder, or have it among their words."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            place = os.readlink("/proc/%s/cwd" % pid)
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if place.startswith(str(folder)) or str(folder).encode() in words:
            found.add(int(pid))
    return found - {os.getpid()}


def test_two_have_addresses_of_their_own(own: Double, double: Double) -> None:
    assert own.url.rpartition(":")[0] != double.url.rpartition(":")[0]
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 1}
    for each in (own, double):
        each.submit("beside", "echo $MASTER_ADDR", distribution=distribution)
        each.wait("beside")
    logs = {each.artifact("beside", "user_logs/std_log.txt") for each in (own, double)}
    assert len(logs) == 2


def test_an_address_belongs_to_one_and_is_free_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address.tempfile, "gettempdir", lambda: str(tmp_path))
    first, lock = address.take_slot()
    second, other = address.take_slot()
    assert (first, second) == (1, 2)
    lock.close()
    assert address.take_slot()[0] == 1
    other.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_other_users_of_the_machine_are_not_answered(double: Double) -> None:
    host, port = double.url.removeprefix("https://").split(":")
    # A handshake of a strange form is answered with an alert of TLS.
    ask = r"exec 3<>/dev/tcp/%s/%s; printf '\x16\x03\x01\x00\x05hello' >&3; timeout 20 head -c1 <&3 | wc -c" % (
        host,
        port,
    )
    sizes = [subprocess.run(["bash", "-c", ask], user=user, capture_output=True, text=True) for user in (0, 65534)]
    assert [each.stdout.strip() for each in sizes] == ["1", "0"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_no_process_of_a_job_outlives_its_double(tmp_path: Path, number: int) -> None:
    double = Double.start(str(tmp_path))
    double.submit("job", "setsid sleep 4321 & sleep 4321")
    double.wait("job", "Running")
    until(lambda: processes_of(tmp_path), lambda found: len(found) >= 3, 20)
    double.stop(number)
    until(lambda: processes_of(tmp_path), lambda found: not found, 20)


def test_a_double_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    folder = str(Path(__file__).parent)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None and starter.stdin is not None
    assert int(starter.stdout.readline()) in processes_of(tmp_path)
    starter.kill()
    starter.wait()
    starter.stdin.close()
    starter.stdout.close()
    until(lambda: processes_of(tmp_path), lambda found: not found, 20)


def test_a_rank_that_fails_may_end_the_others(tmp_path: Path) -> None:
    double = Double.start(str(tmp_path), fail_fast=True)
    try:
        distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
        double.submit("job", 'test "$RANK" = 0 && exec sleep 4321; exit 3', distribution=distribution)
        assert double.wait("job")["status"] == "Failed"
    finally:
        double.stop()


def test_what_keeps_it_from_starting_is_told(tmp_path: Path) -> None:
    with pytest.raises(DoubleError, match="colour"):
        Double.start(str(tmp_path), colour="red")
