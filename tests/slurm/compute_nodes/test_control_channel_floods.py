"""Connections from another node to the port where a run's nodes meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from driver import wait_for
from slurm.login import PATIENCE, UP, Login

FLOOD = """
import select, socket, sys
address = sys.argv[1], int(sys.argv[2])
said = b"", b"x", b"0" * 32 + b"\\n", b"0" * 32 + b"\\n" + b"0" * 64 + b" {}\\n"
waiting, talking, heard = {}, [], 0

def talk(seconds):
    global heard
    _, ready, _ = select.select([], list(waiting), [], seconds)
    for each in ready:
        try:
            each.send(waiting.pop(each))
        except OSError:
            continue
        talking.append(each)
        heard += 1

for number in range(400):
    each = socket.socket()
    each.setblocking(False)
    each.connect_ex(address)
    waiting[each] = said[number % 4]
    talk(0)
    if len(talking) > 200:
        for each in talking[::2]:
            each.close()
        talking = talking[1::2]
talk(0 if heard else 30)
assert heard, "nobody listens at %s:%d" % address
for each in talking:
    try:
        each.send(b"x")
    except OSError:
        pass
"""


def test_nodes_join_through_floods(login: Login) -> None:
    """Found by review: 66 idle connections and a byte on each ended any run of several nodes. The agents but the first
    come only once there has been a flood, and while there is one."""
    come = os.path.join(login.project, "come")
    wait = '[ "$SLURM_NODEID" = 0 ] || until [ -e %s ]; do sleep 0.05; done' % come
    late = login.write("late", '#!/bin/sh\n%s\nexec %s "$@"\n' % (wait, sys.executable))
    os.chmod(late, 0o755)
    with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
        file.write('python = "%s"\n' % late)
    run = login.begin(UP, "3x1", code=".")
    path = login.path(run, "attempt-0", "rendezvous.json")
    wait_for(lambda: os.path.exists(path), PATIENCE)
    said = json.loads(Path(path).read_text())
    assert said["control_port"] > 0, "no port is open: nothing was tried"
    argv = [sys.executable, "-c", FLOOD, said["address"], str(said["control_port"])]
    for _ in range(3):
        subprocess.check_call(login.cluster.on_node("node4", argv))
    assert not login.left(run, "up-0-0")
    flood = subprocess.Popen(login.cluster.on_node("node4", argv))
    Path(come).touch()
    assert login.ended(run)["state"] == "SUCCEEDED", login.read(run, "batch.log")
    assert flood.wait(PATIENCE) in (0, 1)
