"""Process 1 of a node: `node.py FOLDER NAME ADDRESS VERSION GROUP MEMORY VISIBLE…`. The machine's power is this
process.

It starts in the cluster's network namespace, but in PID, mount, UTS and IPC namespaces of its own. It gives itself a
network namespace with a cable to the bridge, an empty /tmp and /dev/shm (the VISIBLE folders shine through), a control
group (VERSION: 1 or 2) below GROUP and one that limits memory below MEMORY, where these are not empty, and starts
slurmd.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import groups
import kernel
import processes


def _hardware(address: str) -> str:
    """The same Ethernet address after every boot, as others keep it in mind."""
    return "02:00:" + ":".join("%02x" % int(part) for part in address.split("."))


def connect(name: str, address: str) -> None:
    """A network namespace whose eth0 hangs on the bridge of the one that this process started in."""
    cluster = os.open("/proc/self/ns/net", os.O_RDONLY)
    path = "/proc/self/fd/%d" % cluster
    kernel.unshare(kernel.CLONE_NEWNET)
    inner = [
        "link set lo up",
        "link add eth0 address %s type veth peer name %s netns %s" % (_hardware(address), name, path),
        "address add %s/24 dev eth0" % address,
        "link set eth0 up",
    ]
    outer = ["nsenter", "--net=" + path, "ip", "link", "set", name, "master", "bridge", "up"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(inner).encode(), pass_fds=[cluster], check=True)
    subprocess.run(outer, pass_fds=[cluster], check=True)
    os.close(cluster)


def isolate(folder: str, name: str, version: int, group: str, memory: str, visible: list[str]) -> None:
    """An own name, own temporary folders, own view of the network's devices."""
    socket.sethostname(name)
    opened = {path: os.open(path, os.O_PATH) for path in visible}
    own = {groups.FREEZER: group, groups.MEMORY: memory}
    taken = {controller: os.path.join(path, name) for controller, path in own.items() if path}
    if taken:
        groups.take(*taken.values())
    _see_own_devices(version or 1 if taken else 0, list(taken))
    for target in ("/tmp", "/dev/shm"):
        kernel.mount("tmpfs", target, "tmpfs", options="size=2g,mode=1777")
    for path, descriptor in opened.items():
        os.makedirs(path, exist_ok=True)
        kernel.bind("/proc/self/fd/%d" % descriptor, path)
        os.close(descriptor)
    kernel.bind(os.path.join(folder, "etc", "hosts"), "/etc/hosts")
    with open("/tmp/.hostname", "w", encoding="ascii") as file:
        file.write(name + "\n")
    if os.path.exists("/etc/hostname"):
        kernel.bind("/tmp/.hostname", "/etc/hostname")
    os.unlink("/tmp/.hostname")


def _see_own_devices(groups_version: int, controllers: list[str]) -> None:
    """/sys tells of this namespace's network; control groups are its own, or stay where slurmd looks for them."""
    there = os.open(groups.FOLDER, os.O_PATH)
    kernel.mount("sysfs", "/sys", "sysfs")
    if groups_version:
        groups.show(groups_version, *controllers)
    else:
        kernel.mount("/proc/self/fd/%d" % there, groups.FOLDER, flags=kernel.MS_BIND | kernel.MS_REC)
    os.close(there)


def main(folder: str, name: str, address: str, version: str, group: str, memory: str, *visible: str) -> None:
    connect(name, address)
    isolate(folder, name, int(version), group, memory, list(visible))
    subprocess.call(["slurmd"])
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(processes.BOOTED)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            signal.sigwait({signal.SIGCHLD})


if __name__ == "__main__":
    main(*sys.argv[1:])
