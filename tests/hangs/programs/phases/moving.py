"""Phases in which bytes move: to the disk, from it, over a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time

from pace import DURATION, until_over

SEND = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    connection.sendall(b"x" * 4096)
    time.sleep(0.2)
"""


def checkpoint() -> None:
    """Each megabyte is on the disk before the next."""
    with tempfile.TemporaryFile(dir=".") as file:
        for number in until_over():
            file.seek(number % 64 << 20)
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())


def trickle() -> None:
    """A few kilobytes a second, into a file, as on a busy file server."""
    with tempfile.TemporaryFile(dir=".") as file:
        for _ in until_over():
            file.write(bytes(4096))
            file.flush()
            time.sleep(0.2)


def reading() -> None:
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(bytes(4 << 20))
        for number in until_over():
            file.seek(number % 4 << 20)
            file.read(1 << 20)
            time.sleep(0.02)


def copying() -> None:
    """By a program."""
    command = "end=$(($(date +%s%N) + $1)); while [ $(date +%s%N) -lt $end ]; do head -c 1000000 /dev/zero >part; done"
    with tempfile.TemporaryDirectory(dir=".") as folder:
        subprocess.run(["sh", "-c", command, "copy", str(int(DURATION * 1e9))], cwd=folder, check=True)


def download() -> None:
    """A few kilobytes a second, over a connection, by another process of the rank."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        sender = subprocess.Popen([sys.executable, "-c", SEND, port, str(DURATION)])
        connection, _ = listener.accept()
        with connection:
            while connection.recv(4096):
                pass
        sender.wait()


PHASES = {
    "checkpoint": checkpoint,
    "trickle": trickle,
    "reading": reading,
    "copying": copying,
    "download": download,
}
