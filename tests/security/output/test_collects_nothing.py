"""worldsize collects nothing: its processes look up and connect to nothing but this machine, unless a job or a
configuration names something else."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from driver import Cli

WATCH = '''\
"""Writes each address that this Python looks up or connects to."""
import json, os, sys

def watch(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with open(os.environ["WATCHED"], "a") as file:
            address = values[1] if event in ("socket.connect", "socket.sendto") else values[0]
            file.write(json.dumps([event, repr(address) if isinstance(address, bytes) else address]) + "\\n")

sys.addaudithook(watch)
'''


def is_of_this_machine(address: object) -> bool:
    name = address[0] if isinstance(address, list) else address
    if not isinstance(name, str) or name in ("", "localhost", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return os.path.isabs(name) or name.startswith(("\0", "b'", "/"))


def test_nothing_but_this_machine_is_contacted(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    watcher = tmp_path / "watcher"
    watcher.mkdir()
    (watcher / "sitecustomize.py").write_text(WATCH)
    cli.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(watcher), cli.environ["PYTHONPATH"]]))
    cli.environ["WATCHED"] = str(tmp_path / "watched")
    cli.write("fails.py", "raise ValueError('x')\n")
    control = "import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', 1))"
    subprocess.run([sys.executable, "-c", control], env=cli.environ, check=True)
    assert json.loads((tmp_path / "watched").read_text()) == ["socket.connect", ["127.0.0.1", 1]]
    run = cli.run("-w", "2x1", "--", "python", "-S", "-c", "pass")
    cli("run", "-w", "2x1", "--", "python", "fails.py")
    for words in (["status", run], ["list"], ["logs", run], ["why"], ["describe", run], ["--version"], ["--help"]):
        assert cli(*words).code in (0, 1), words
    seen = [json.loads(line) for line in (tmp_path / "watched").read_text().splitlines()]
    assert [each for each in seen if not is_of_this_machine(each[1])] == []
    cli.close()
