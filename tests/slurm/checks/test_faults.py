"""What is wrong with a node is named before the user's code starts there: faults on a real cluster, one at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from slurm.by_hand import mounted
from slurm.login import Login

SECOND, THIRD, FOURTH = "node2", "node3", "node4"
pytestmark = pytest.mark.timeout(300)


def check(login: Login, *words: str, world: str = "3x1") -> Mapping[str, Any]:
    """What a check says, as JSON; its exit code is that of its verdict."""
    result = login("check", *words, "-w", world, "-o", "json", timeout=240)
    assert result.out.startswith("{"), result
    found: Mapping[str, Any] = json.loads(result.out)
    assert result.code == (1 if found["verdict"] == "bad" else 0), result
    return found


def alarms(found: Mapping[str, Any]) -> list[str]:
    """Bad rows and warnings: node, id and verdict, and what they say."""
    rows = [row for row in found["rows"] if row["verdict"] in ("bad", "warning")]
    return ["%(node)s %(id)s %(verdict)s: %(what)s: %(value)s (%(hint)s)" % row for row in rows]


def named(found: Mapping[str, Any], node: str, id: str, *verdicts: str) -> str:
    """The text of the only row of this id that is bad or a warning: this node's, with one of these verdicts."""
    said = [each for each in alarms(found) if each.split()[1] == id]
    assert len(said) == 1 and said[0].startswith(tuple("%s %s %s: " % (node, id, each) for each in verdicts)), said
    return said[0]


def execute(login: Login, node: str, *words: str) -> str:
    return subprocess.check_output(login.cluster.on_node(node, list(words)), text=True)


@contextmanager
def changed(login: Login, node: str, make: Sequence[str], undo: Sequence[str]) -> Iterator[None]:
    """A command was executed on a node, and is undone at the end."""
    execute(login, node, *make)
    try:
        yield
    finally:
        execute(login, node, *undo)


def use_python(login: Login, path: str) -> None:
    text = 'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\npython = "%s"\n' % path
    login.write("worldsize.toml", text)


@pytest.mark.exhaustive
def test_a_clean_cluster_raises_no_alarm(login: Login) -> None:
    found = check(login, world="4x1")
    assert alarms(found) == [] and found["nodes"] == ["node1", SECOND, THIRD, FOURTH]


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_fifty_clean_checks_raise_no_alarm(login: Login) -> None:
    for number in range(50):
        assert (number, alarms(check(login, world="4x1"))) == (number, [])


def test_a_wrong_entry_in_a_table_of_hosts(login: Login) -> None:
    text = execute(login, SECOND, "cat", "/etc/hosts")
    address = {name: line.split()[0] for line in text.splitlines() for name in line.split()[1:]}
    hosts = os.path.join(login.cluster.shared, "hosts")
    lines = [line for line in text.splitlines() if THIRD not in line.split()]
    with open(hosts, "w") as file:
        file.write("\n".join([*lines, "%s %s" % (address[FOURTH], THIRD), ""]))
    with mounted(login, SECOND, "/etc/hosts", "--bind", hosts):
        said = named(check(login, "--only", "network"), SECOND, "network.names", "bad")
    assert THIRD in said and address[FOURTH] in said


def test_another_torch_on_one_node(login: Login) -> None:
    home = os.path.join(login.cluster.shared, "env")
    subprocess.check_call([sys.executable, "-m", "venv", "--without-pip", home])
    packages = os.path.join(home, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    other = os.path.join(login.cluster.shared, "other")
    for folder, version in ((packages, "2.13.0"), (other, "2.12.1")):
        place = os.path.join(folder, "torch-%s.dist-info" % version)
        os.makedirs(place)
        with open(os.path.join(place, "METADATA"), "w") as file:
            file.write("Metadata-Version: 2.1\nName: torch\nVersion: %s\n" % version)
    use_python(login, os.path.join(home, "bin", "python"))
    job = login.job("python -c pass", "3x1")
    with mounted(login, THIRD, packages, "--bind", other):
        said = named(check(login, job, "--only", "same.versions"), THIRD, "same.versions", "bad")
        alone = named(check(login, "--only", "same.versions"), THIRD, "same.versions", "warning")
    for text in (said, alone):
        assert "torch" in text and "2.12.1" in text and "2.13.0" in text


FIREWALL = """table inet test {
  chain input { type filter hook input priority 0; tcp dport 20000-65535 tcp flags & (syn | ack) == syn drop; }
}"""


def test_a_blocked_port(login: Login) -> None:
    """The third node lets nobody in: only connections that it opens itself go on."""
    with changed(login, THIRD, ["nft", FIREWALL], ["nft", "flush ruleset"]):
        found = check(login, "--only", "network.port")
    assert any(" network.port bad: " in each and THIRD in each for each in alarms(found)), found


CLOCK_AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

typedef int (*function)(clockid_t, struct timespec *);

int clock_gettime(clockid_t clock, struct timespec *time) {
    int code = ((function)dlsym(RTLD_NEXT, "clock_gettime"))(clock, time);
    if (code == 0 && clock == CLOCK_REALTIME) time->tv_sec += 90;
    return code;
}
"""
"""The time of day alone is ahead. libfaketime 0.9.10 shifts sleeps too, some of which then fail with EINVAL."""


def test_a_skewed_clock(login: Login) -> None:
    source, library, python = (os.path.join(login.root, name) for name in ("ahead.c", "ahead.so", "python-of-nodes"))
    with open(source, "w") as file:
        file.write(CLOCK_AHEAD)
    subprocess.check_call(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"])
    with open(python, "w") as file:
        file.write('#!/bin/sh\n[ "$(hostname)" = %s ] && export LD_PRELOAD=%s\n' % (THIRD, library))
        file.write('exec %s "$@"\n' % sys.executable)
    os.chmod(python, 0o755)
    use_python(login, python)
    said = named(check(login, "--only", "clock"), THIRD, "clock", "warning", "bad")
    assert "90" in said


def test_a_full_disk(login: Login) -> None:
    with mounted(login, SECOND, "/tmp", "-t", "tmpfs", "-o", "size=64k", "none"):
        subprocess.call(
            login.cluster.on_node(SECOND, ["dd", "if=/dev/zero", "of=/tmp/filler"]), stderr=subprocess.DEVNULL
        )
        said = named(check(login, "--only", "files"), SECOND, "files.node_disk", "bad")
    assert "/tmp" in said


def test_a_small_shared_memory(login: Login) -> None:
    with mounted(login, SECOND, "/dev/shm", "-t", "tmpfs", "-o", "size=1m", "none"):
        said = named(check(login, "--only", "memory"), SECOND, "memory.shm", "warning", "bad")
    assert "1.0 MiB" in said or "1 MiB" in said


def data_of(login: Login) -> str:
    """A directory of data that all nodes see."""
    data = os.path.join(login.root, "data")
    os.makedirs(data)
    with open(os.path.join(data, "train.csv"), "w") as file:
        file.write("1\n")
    return data


@pytest.mark.exhaustive
def test_a_missing_mount(login: Login) -> None:
    data = data_of(login)
    job = login.job("true", "3x1", inputs={"data": {"type": "uri_folder", "path": data}})
    assert alarms(check(login, job, "--only", "files")) == []
    with mounted(login, THIRD, data, "-t", "tmpfs", "none"):
        said = named(check(login, job, "--only", "files"), THIRD, "files.inputs", "bad")
    assert "inputs.data" in said


@contextmanager
def throttled(login: Login, node: str) -> Iterator[None]:
    """Whatever of worldsize runs on the node runs a fifth of the time alone."""
    over = threading.Event()

    def hold_back() -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # of this thread: it goes before what it holds back
        while not over.is_set():
            pids = [each.pid for each in login.cluster.processes(node)]
            for number, seconds in ((signal.SIGSTOP, 0.08), (signal.SIGCONT, 0.02)):
                for pid in pids:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass
                over.wait(seconds)

    thread = threading.Thread(target=hold_back)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for each in login.cluster.processes(node):
            os.kill(each.pid, signal.SIGCONT)


def test_a_throttled_node(login: Login) -> None:
    with throttled(login, THIRD):
        said = named(check(login, "--only", "speed", world="4x1"), THIRD, "speed.compute", "warning", "bad")
    assert said


def test_run_names_the_node_by_itself_before_the_ranks_start(login: Login) -> None:
    """The cheap form: nobody has asked for it."""
    with mounted(login, SECOND, "/dev/shm", "-t", "tmpfs", "-o", "size=1m", "none"):
        result = login("run", login.job("echo the code has begun", "2x1"), timeout=120)
    assert result.code == 0, result
    lines = (result.out + result.err).splitlines()
    assert any("node2" in line and "memory.shm" in line for line in lines), lines


def test_bad_nodes_are_left_out_of_the_run(login: Login) -> None:
    data = data_of(login)
    job = login.job("cat ${{inputs.data}}/train.csv", "2x1", inputs={"data": {"type": "uri_folder", "path": data}})
    with mounted(login, SECOND, data, "-t", "tmpfs", "none"):
        result = login("check", job, "--only", "files", "--exclude-bad", timeout=240)
        run = result.out.split()[-1]
        assert login.ended(run)["state"] == "SUCCEEDED"
    assert SECOND not in login.hosts(run) and len(login.hosts(run)) == 2
