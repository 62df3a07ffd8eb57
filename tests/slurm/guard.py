"""Process 1 of a cluster's PID namespace: `guard.py FOLDER CLAIM NETWORK-PREFIX LINK GROUP FD FD FD`.

Every daemon, node and job lives in its namespace, so that the kernel ends them all with it. The FDs are the claim, the
owner (a pidfd; -1: nobody) and the login side's network. It ends on SIGTERM, or when the owner is gone, however that
died. It then removes FOLDER, CLAIM and the control group GROUP (where that is not empty); the network vanishes with it.
Prints "ready" once there is a network between the login side, itself and the nodes to come.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import groups
import kernel

PATIENCE = 10.0


def connect(prefix: str, link: str, login: int) -> None:
    """A bridge for the nodes, and a cable from it to the login side."""
    path = "/proc/self/fd/%d" % login
    inner = "\n".join(
        (
            "link set lo up",
            "link add bridge address 02:00:00:00:00:01 type bridge",  # else each new cable changes it
            "link set bridge up",
            "address add %s.2/24 dev bridge" % prefix,
            "link add uplink type veth peer name %s netns %s" % (link, path),
            "link set uplink master bridge up",
        )
    )
    outer = "address add %s.1/24 dev %s\nlink set %s up\n" % (prefix, link, link)
    for command, lines in ((["ip", "-batch", "-"], inner), (["nsenter", "--net=" + path, "ip", "-batch", "-"], outer)):
        subprocess.run(command, input=lines.encode(), pass_fds=[login], check=True)


def make_local(folder: str) -> None:
    """Where slurmctld and MariaDB write: in memory, as each waits for a busy disk with all its locks held."""
    kernel.mount("tmpfs", folder, "tmpfs", options="size=2g,mode=755")
    for name in ("state", "tmp"):
        os.mkdir(os.path.join(folder, name))


def reap() -> bool:
    """Whether a child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def watch(wake: socket.socket, owner: int, stop: list[int]) -> None:
    """Until SIGTERM, or the owner's death."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if owner >= 0:
        poll.register(owner, select.POLLIN)
    while not stop:
        for descriptor, _ in poll.poll():
            if descriptor == owner:
                return
            wake.recv(4096)
        reap()


def end(folder: str, claim: str, *own_groups: str) -> None:
    """Nothing is left: processes, groups, cable, folder, claim."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not reap():
            break
        time.sleep(0.005)
    for group in filter(None, own_groups):
        groups.remove(group)
    subprocess.call(["ip", "link", "delete", "uplink"])
    kernel.unmount(os.path.join(folder, "local"))
    shutil.rmtree(folder, ignore_errors=True)
    os.unlink(claim)


def main(folder: str, claim: str, prefix: str, link: str, group: str, memory: str, *descriptors: str) -> None:
    if os.getpid() != 1:
        sys.exit("guard.py ends every process that it can see, so it must be process 1 of a namespace")
    _, owner, login = map(int, descriptors)
    stop: list[int] = []
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    try:
        socket.sethostname("ctl")
        kernel.bind(os.path.join(folder, "etc", "hosts"), "/etc/hosts")
        make_local(os.path.join(folder, "local"))
        connect(prefix, link, login)
        os.close(login)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        os.dup2(2, 1)
        watch(wake, owner, stop)
    finally:
        end(folder, claim, group, memory)


if __name__ == "__main__":
    main(*sys.argv[1:])
