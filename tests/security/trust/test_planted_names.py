"""Links and directories that somebody else has made under names which a person, or worldsize, goes by."""

from __future__ import annotations

import os

import pytest
from driver import Cli
from security.people import Machine, Person

LINK = "import os, sys; os.symlink(*sys.argv[1:])"
DIRECTORY = "import os, sys; os.makedirs(sys.argv[1] + '/x')"


@pytest.mark.parametrize("name", ["link", "link/", "link/.", "link/below"])
def test_a_link_that_is_to_be_trusted(victim: Cli, attacker: Person, machine: Machine, uid: int, name: str) -> None:
    """Found by review: the directory that it led to was trusted from then on, without a word."""
    place, drop = machine.directory(0o755, attacker.uid), machine.directory(0o777, uid)
    os.mkdir(drop + "/below")
    os.chown(drop + "/below", uid, uid)
    attacker.python(LINK, drop, place + "/link")
    refused = victim("config", "trust", os.path.join(place, name))
    assert refused.code == 2 and "a link of another user leads to %s" % drop in refused.err, refused
    assert victim.json("config", "trust") == []
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s/runs"\n' % drop)
    assert "every user may write to it" in victim("run", "-q", "--", "true").err


def test_a_link_of_ones_own_that_is_to_be_trusted(victim: Cli, machine: Machine, uid: int) -> None:
    """People name their directories so; what is trusted is where it leads."""
    drop, place = machine.directory(0o777, uid), machine.directory(0o755, uid)
    os.symlink(drop, place + "/link")
    os.chown(place + "/link", uid, uid, follow_symlinks=False)
    victim.ok("config", "trust", place + "/link")
    assert [each["path"] for each in victim.json("config", "trust")] == [drop]
    victim.ok("config", "trust", "--remove", place + "/link")
    assert victim.json("config", "trust") == []


@pytest.mark.exhaustive(unless=["anna-1"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_name_that_a_removal_would_take(victim: Cli, attacker: Person, machine: Machine, which: int) -> None:
    """Found by review: whoever held it stopped the removal of all runs for ever."""
    shared = machine.directory(0o1777)
    victim.environ["WORLDSIZE_TRUST_PROJECT"] = "1"
    victim.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % shared)
    runs = [victim.run("-q", "--", "true") for _ in range(3)]
    roots = [os.path.realpath(victim.path(run)) for run in runs]
    taken = os.path.join(shared, ".pruned-" + runs[which])
    attacker.python(DIRECTORY, taken)
    pruned = victim("prune", "--keep", "0")
    assert pruned.code == 0 and "removed 3 run(s)" in pruned.err, pruned
    assert victim.json("list") == [] and not [root for root in roots if os.path.lexists(root)]
    assert os.path.isdir(taken + "/x")
    assert [name for name in os.listdir(shared) if name.startswith(".pruned-")] == [os.path.basename(taken)]
