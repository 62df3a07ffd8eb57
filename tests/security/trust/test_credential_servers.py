"""Who may make us send a password: nobody's run directory, and only servers that the configuration names."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Cli
from security.conftest import Visible
from security.people import Person

PASSWORD = "S3cretOfVictim"
VERBS = {
    "status": ("status", "{}"),
    "wait": ("wait", "--timeout", "1", "{}"),
    "logs": ("logs", "-f", "{}"),
    "cancel": ("cancel", "{}"),
    "cancel now": ("cancel", "--now", "{}"),
    "exec": ("exec", "{}", "--", "true"),
    "rerun": ("rerun", "{}"),
}


class Listener:
    """A port of the attacker's, and whether anybody has come."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = "https://127.0.0.1:%d" % self._socket.getsockname()[1]

    @property
    def visited(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def run_on_hpcpack(owner: Cli, url: str) -> str:
    """A directory as a run on HPC Pack has it whose nodes have told nothing yet; its path."""
    run = owner.run("-q", "--", "true")
    root = os.path.realpath(owner.path(run))
    for name in ("result.json", "attempt-0/exit/node-0000.json"):
        os.unlink(os.path.join(root, name))
    handle: dict[str, Any] = {"type": "hpcpack", "job": 7, "run_id": run, "nodes": 1, "url": url, "user": "CORP\\alice"}
    Path(root, "handle.json").write_text(json.dumps({**handle, "verify": False, "ca_file": None, "share": None}))
    return root


@pytest.mark.exhaustive(unless=["root-status", "anna-logs", "root-exec", "anna-cancel", "anna-rerun"])
@pytest.mark.parametrize("verb", VERBS)
def test_another_users_run_directory_sends_no_password(
    verb: str, victim: Cli, attacker: Person, listener: Listener, visible: Visible
) -> None:
    """Found by review: `worldsize status DIRECTORY` sent it to the address that the directory names."""
    directory = run_on_hpcpack(attacker, listener.url)
    visible(attacker.root)
    words = [word.format(directory) for word in VERBS[verb]]
    with victim.start(*words, WORLDSIZE_HPCPACK_PASSWORD=PASSWORD) as process:
        said = b""
        if verb == "logs":  # it goes on until the run ends, and says why nobody is asked
            assert process.stderr is not None
            said = process.stderr.readline()
            assert b"belongs to" in said
            process.kill()
        said += b"".join(process.communicate(timeout=60))
    assert not listener.visited
    assert PASSWORD.encode() not in said
    if verb == "status":
        assert b"belongs to" in said and b"%d" % attacker.uid in said


def test_a_directory_of_ones_own_sends_none_to_what_is_not_configured(victim: Cli, listener: Listener) -> None:
    """Whoever can write to a file of ours, as on a share of a group's, names no server by that."""
    directory = run_on_hpcpack(victim, listener.url)
    status = victim("status", directory, WORLDSIZE_HPCPACK_PASSWORD=PASSWORD)
    assert not listener.visited
    assert "no configured compute has its head node and account" in status.out, status


def test_the_configured_server_is_asked_as_it_is_configured(victim: Cli, listener: Listener) -> None:
    """The handle's own `verify` counts nothing: the certificate that is configured does."""
    directory = run_on_hpcpack(victim, listener.url)
    table = '[compute.lab]\ntype = "hpcpack"\nurl = "%s"\nuser = \'CORP\\alice\'\nca_file = "/nowhere.pem"\n'
    victim.write("worldsize.toml", table % listener.url)
    status = victim("status", directory, WORLDSIZE_HPCPACK_PASSWORD=PASSWORD)
    assert "`ca_file` cannot be read" in status.out, status
