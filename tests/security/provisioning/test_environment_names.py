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


@pytest.mark.parametrize("place", ["a place that was forgotten", "a place for all", "a link"])
def test_a_name_leads_to_no_directory_of_a_strangers(
    victim: Cli, attacker: Person, machine: Machine, uid: int, place: str
) -> None:
    """Found by review: of conda's list, and of a shared installation, whatever lay there was executed."""
    shared = machine.directory(0o1777)
    prefix = os.path.join(shared, "envs", "torch")
    own = os.path.join(victim.root, ".virtualenvs", "torch")
    if place == "a place for all":
        os.mkdir(shared + "/envs")
        os.chmod(shared + "/envs", 0o1777)
        victim.environ["MAMBA_ROOT_PREFIX"] = shared
    else:
        listed = os.path.join(victim.root, ".conda", "environments.txt")
        os.makedirs(os.path.dirname(listed), exist_ok=True)
        with open(listed, "w") as file:
            file.write(prefix + "\n")
        os.chmod(listed, 0o644)
    if place == "a link":  # to what looks like an installation of one owner
        own_tree = machine.directory(0o755, attacker.uid)
        attacker.python(MAKE, own_tree + "/torch")
        attacker.python(
            "import os, sys; os.makedirs(sys.argv[2]); os.symlink(*sys.argv[1::2])",
            own_tree + "/torch",
            os.path.dirname(prefix),
            prefix,
        )
    else:
        attacker.python(MAKE, prefix)
    victim.environ["HOME"] = victim.root
    victim.write("job.yml", "command: python -c 1\nenvironment: torch\n")
    refused = victim("run", "-q", "job.yml")
    assert refused.code == 2 and "another user could have created" in refused.err, refused
    os.makedirs(own + "/bin")
    os.symlink(machine.python, own + "/bin/python")
    for directory, names, files in os.walk(os.path.join(victim.root, ".virtualenvs")):
        for name in ("", *names, *files):
            os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)
    ranks = victim("run", "-q", "job.yml")
    assert ranks.code == 0 and "evil" not in ranks.out + victim.ok("logs").out, ranks


def test_an_installation_that_others_can_write_to(victim: Cli, machine: Machine) -> None:
    root = machine.directory(0o2775, 0, 61003)
    os.makedirs(root + "/conda-meta")
    os.makedirs(root + "/bin")
    os.symlink(machine.python, root + "/bin/python")
    for directory, *_ in os.walk(root):
        os.chown(directory, 0, 61003)
        os.chmod(directory, 0o2775)
    victim.environ["MAMBA_ROOT_PREFIX"] = root
    victim.write("job.yml", "command: python -c 1\nenvironment: base\n")
    refused = victim("run", "-q", "job.yml")
    assert refused.code == 2 and "another user could have created" in refused.err, refused
    os.chmod(root, 0o755)
    os.chmod(root + "/bin", 0o755)
    victim.ok("run", "-q", "job.yml")


def test_a_name_of_an_installation_of_somebody_elses(victim: Cli, machine: Machine) -> None:
    """Clusters have a user who installs what all use."""
    root = machine.directory(0o755, 61003)
    os.makedirs(root + "/envs/torch/bin")
    os.symlink(machine.python, root + "/envs/torch/bin/python")
    for directory, *_ in os.walk(root):
        os.chown(directory, 61003, 61003)
    victim.environ["MAMBA_ROOT_PREFIX"] = root
    victim.write("job.yml", "command: python -c 1\nenvironment: torch\n")
    victim.ok("run", "-q", "job.yml")
