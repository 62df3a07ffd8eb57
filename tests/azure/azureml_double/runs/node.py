"""A virtual node: a process that starts its ranks, tells how each ended, and leaves nothing behind.

Standard library alone: it is run as a script, isolated. Its first line of input is JSON, `{"name", "hosts", "ranks":
[{"rank", "command", "folder", "environ", "log"}, …]}`: what the node calls itself, and a file as /etc/hosts that knows
all nodes' names; its processes see both, where this user may arrange that. Each further line is the number of a signal
that every process of the node gets. At the end of input, which comes with the end of the double, all are killed. A line
of output, `{"rank": 0, "code": 3}`, is written as each rank ends; the code is below 0 for a signal's.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

_SUBREAPER = 36
_NEW_MOUNTS, _NEW_NAMES = 0x00020000, 0x04000000
_BIND, _PRIVATE = 4096, 0x44000


def descendants():
    """All living processes below this one; what they leave behind becomes this one's child."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] != b"Z":
            parents[int(name)] = int(fields[1])
    found = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def signal_all(number):
    """Every process of the node gets it."""
    for pid in descendants():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_all():
    """Kill every process of the node and wait for each; what a process starts meanwhile is found the next time."""
    while True:
        signal_all(signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def start(rank):
    """A rank's process, its output in its log."""
    with open(rank["log"], "ab") as log:
        return subprocess.Popen(
            ["bash", "-c", rank["command"]],
            cwd=rank["folder"],
            env=rank["environ"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run(ranks, reader):
    """Until all ranks have ended, or the input has."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    processes = [start(rank) for rank in ranks]  # kept: subprocess waits for those that nobody has
    running = {process.pid: rank["rank"] for process, rank in zip(processes, ranks, strict=True)}
    while running:
        ready, _, _ = select.select([reader, wake], [], [], 1)
        if wake in ready:
            os.read(wake, 512)
        if reader in ready:
            words = os.read(reader, 512)
            if not words:
                return
            for word in words.split():
                signal_all(int(word))
        report_ended(running)


def report_ended(running):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in running:
            line = {"rank": running.pop(pid), "code": os.waitstatus_to_exitcode(status)}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


def take_name(name, hosts):
    """Have this process, and those that it starts, call the machine `name`, and find all nodes' names in `hosts`."""
    kernel = ctypes.CDLL(None)
    if kernel.unshare(_NEW_MOUNTS | _NEW_NAMES) != 0:
        return  # not root: all nodes have the machine's own name
    kernel.mount(b"none", b"/", None, _PRIVATE, None)
    kernel.mount(os.fsencode(hosts), b"/etc/hosts", None, _BIND, None)
    socket.sethostname(name)


def main():
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    words = b""
    while not words.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            return
        words += more
    told = json.loads(words)
    take_name(told["name"], told["hosts"])
    try:
        run(told["ranks"], 0)
    finally:
        end_all()


if __name__ == "__main__":
    main()
