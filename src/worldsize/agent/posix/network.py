"""A separate network for a process (Linux), in which it reaches only itself."""

from __future__ import annotations

from worldsize.agent.posix import mounts

_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}
"""Environment variables that name the loopback as the interface for Gloo and TensorPipe. If only the loopback is left,
libraries that use the host's name would otherwise report an error first."""


def cut_network() -> None:
    """Cut this process, which has one thread, and the processes that it starts off from all networks. They reach only
    themselves and each other. Raise OSError."""
    mounts.unshare_namespaces(mounts.NEW_NET)
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, _SET_FLAGS, struct.pack("16sh14s", b"lo", _UP_AND_RUNNING, b""))
