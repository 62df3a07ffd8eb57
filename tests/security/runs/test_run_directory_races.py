"""A stranger's directory with the name of one's own run, which is away at the moment when it is judged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from driver import wait_for
from security.people import ANNA, BEN, Machine

SLEEP = "import pathlib, time\nprint('up', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"

AT = """
import json, os, socket, sys, time

def tell(word):
    open(os.path.join(box, word), "w").close()

def at(word):
    while not os.path.exists(os.path.join(box, word)):
        if os.path.exists(os.path.join(box, "the end")):
            sys.exit("it ended before: " + word)
        time.sleep(0.001)

"""

ATTACKER = """
box, name, own = sys.argv[1:]
os.rename(own, name)
start = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
said = {"type": "local", "pid": os.getpid(), "start_time": start, "host": socket.gethostname()}
with open(name + "/handle.json", "w") as file:
    json.dump({**said, "run_id": os.path.basename(name)}, file)
print(flush=True)
at("judging")
os.rename(name, own)
tell("away")
at("judged")
os.rename(own, name)
tell("back")
at("seen running")
os.rename(name, own)
print(flush=True)
at("the end")
"""

VICTIM = """
import worldsize.service.runs.submitted as submitted
from worldsize.service.runs.run import Run

box = sys.argv.pop(1)
# Only the moments are marked; nothing that is done in them is another.
is_own, why_foreign, look = submitted.is_own, submitted.foreign_reason, Run.look
judged = []

def first_look(paths):
    if not judged:
        tell("judging")
        at("away")
    return is_own(paths)

def second_look(paths):
    found = why_foreign(paths)
    if not judged:
        judged.append(True)
        tell("judged")
        at("back")
    return found

def later_look(self, *words, **more):
    status = look(self, *words, **more)
    if status.state == "RUNNING":
        tell("seen running")
    return status

submitted.is_own, submitted.foreign_reason, Run.look = first_look, second_look, later_look

from worldsize.cli.main import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.exhaustive(unless=["verb0"])
@pytest.mark.parametrize("verb", [("wait",), ("logs", "-f")])
def test_a_directory_that_was_away_when_it_was_judged(machine: Machine, verb: tuple[str, ...]) -> None:
    """Found by review: it counted as nobody else's; and once it was gone for good, the processes of one's own run of
    that name were ended in its place."""
    victim, attacker = machine.person(ANNA), machine.person(BEN)
    victim.write("sleep.py", SLEEP)
    own = victim.submit("--", "python", "sleep.py")
    wait_for(lambda: victim.has_begun(own) and "up" in victim.ok("logs", own, "--raw").out)
    root = os.path.join(machine.directory(0o1777), own)
    theirs = os.path.join(machine.directory(0o755, BEN), "theirs")
    copied(os.path.realpath(victim.path(own)), theirs)
    box = machine.directory(0o777)
    try:
        with attacker.start_python(AT + ATTACKER, box, root, theirs) as away:
            assert away.stdout is not None and away.stdout.readline()
            with victim.start_python(AT + VICTIM, box, *verb, root) as looking:
                try:
                    _, said = looking.communicate(timeout=90)
                finally:
                    looking.kill()
                    Path(box, "the end").touch()
            assert away.stdout.readline(), "it was never seen running: %s" % said.decode()
        assert looking.returncode not in (0, 2) and b"Traceback" not in said, said
        assert victim.status(own)["state"] == "RUNNING"
    finally:
        Path(victim.path(own, "code", "go")).touch()
    assert victim("wait", own).code == 0, victim.status(own)
    for person in (victim, attacker):
        person.close()


def copied(source: str, target: str) -> None:
    """A run's directory as somebody else's, which is not waited for once it has gone."""
    shutil.copytree(source, target, symlinks=True)
    plan = Path(target, "plan.json")
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "grace": 0}))
    for found in (target, *map(str, Path(target).rglob("*"))):
        os.chown(found, BEN, BEN, follow_symlinks=False)
        if not os.path.islink(found):
            os.chmod(found, 0o755)
