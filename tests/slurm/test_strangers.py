"""Connections from another node to the port where a run's nodes meet."""

from __future__ import annotations

import json
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


def test_a_flood_of_strangers_disturbs_no_run(login: Login) -> None:
    """Found by review: 66 idle connections and a byte on each ended any run of several nodes."""
    run = login.running(UP + "; until test -e outputs/go; do sleep 0.1; done", "3x1")
    said = json.loads(login.read(run, "attempt-0", "rendezvous.json"))
    assert said["control_port"] > 0, "no port is open: nothing was tried"
    argv = [sys.executable, "-c", FLOOD, said["address"], str(said["control_port"])]
    for _ in range(3):
        subprocess.check_call(login.cluster.on_node("node4", argv))
    assert login.status(run)["state"] == "RUNNING"
    Path(login.path(run, "outputs", "go")).touch()
    assert login.ended(run)["state"] == "SUCCEEDED", login.read(run, "batch.log")


def test_nodes_join_through_a_flood(login: Login) -> None:
    """It begins as the head says where it is, and the others have to find out first."""
    slurm = {"sbatch_options": {"begin": "now+1hour"}}
    run = login.begin(UP + "; until test -e outputs/go; do sleep 0.1; done", "3x1", slurm=slurm)
    path = Path(login.path(run, "attempt-0", "rendezvous.json"))
    script = """
import json, os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.001)
said = json.load(open(sys.argv[1]))
assert said["control_port"] > 0
sys.argv[1:] = [said["address"], str(said["control_port"])]
"""
    argv = [sys.executable, "-c", script + FLOOD, str(path)]
    with subprocess.Popen(login.cluster.on_node("node4", argv)) as flood:
        login.release(run)
        assert flood.wait(PATIENCE) == 0
    assert wait_for(lambda: login.left(run, "up-2-0"), PATIENCE)
    Path(login.path(run, "outputs", "go")).touch()
    assert login.ended(run)["state"] == "SUCCEEDED", login.read(run, "batch.log")
