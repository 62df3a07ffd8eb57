"""A name of an environment, and a directory of that name that somebody else has made where one stands."""

from __future__ import annotations

import os

import pytest
from driver import Cli
from security.people import Machine, Person

MAKE = """
import os, sys
os.makedirs(sys.argv[1] + "/bin")
for name in ("python", "sh"):
    with open(sys.argv[1] + "/bin/" + name, "w") as file:
        file.write("#!/bin/sh\\necho evil\\n")
    os.chmod(file.name, 0o755)
"""


@pytest.mark.parametrize("configured", [True, False])
def test_it_is_not_taken(victim: Cli, attacker: Person, machine: Machine, uid: int, configured: bool) -> None:
    """Found by review: it came before the name in the user's own configuration, and was executed."""
    shared = machine.directory(0o1777)
    attacker.python(MAKE, shared + "/torch")
    good = os.path.join(victim.root, "good")
    os.makedirs(good + "/bin")
    os.symlink(machine.python, good + "/bin/python")
    if configured:
        victim.write("../.config/worldsize/worldsize.toml", '[environment.torch]\npython = "%s"\n' % good)
        for directory, names, files in os.walk(victim.root):
            for name in ("", *names, *files):
                os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)
    done = victim("env", "shell", "torch", "--", "sh", "-c", "echo $PATH", cwd=shared)
    assert "evil" not in done.out and shared not in done.out, done
    if configured:
        assert done.out.startswith(good + "/bin:")
    else:
        assert done.code == 2 and "it belongs to" in done.err and "./torch" in done.err
