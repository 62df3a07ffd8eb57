"""A network of a process's own (Linux), in which it reaches itself alone."""

from __future__ import annotations

from worldsize.agent.posix import mounts

_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}
"""Where only the loopback is left, libraries that go by the host's name would complain first."""


def cut_network() -> None:
    """This process, of one thread, and what it starts reach themselves and each other, and nothing else. OSError."""
    mounts.unshare_namespaces(mounts.NEW_NET)
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, _SET_FLAGS, struct.pack("16sh14s", b"lo", _UP_AND_RUNNING, b""))
