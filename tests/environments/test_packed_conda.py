"""A conda environment, packed and unpacked elsewhere: text, binary files, what pip added, what activation does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from driver import Cli
from test_conda_environments import conda_file
from wheels import Links

SHOW = (
    "native-where; alpha-say; echo $NATIVE_HOME $NATIVE_MODE $CONDA_PREFIX;"
    " python -c 'import sys, demo, beta, shared.util as u; print(demo.__version__, u.FROM, sys.prefix)'"
)


@pytest.mark.exhaustive(unless=["60"])
@pytest.mark.parametrize("longer", [0, 60])
def test_it_runs_where_it_was_unpacked(cli: Cli, channel: Path, links: Links, longer: int) -> None:
    """Also in a place with a longer name than it was built in: conda's packages leave room for that."""
    links.wheel("demo", "1.0", requires=("alpha>=1",))
    links.wheel("alpha", "1.5")
    cli.write("env.yml", "name: mine\n" + conda_file(channel, "beta", "native", pip=(*links.lines, "demo")))
    built = cli.ok("env", "build", "env.yml").out.strip()
    cli.ok("env", "pack", "env.yml", "-o", "mine.tar.gz")
    disk = os.path.join(cli.root, "d" + "e" * longer)
    os.mkdir(disk)
    cli.environ["WORLDSIZE_LOCAL_DIR"] = disk
    cli.write("job.yml", "command: %s\nenvironment: mine.tar.gz\n" % SHOW)
    cli.write("prefix.yml", "command: %s\nenvironment:\n  file: env.yml\n  distribute: local\n" % SHOW)
    assert shown(cli, "prefix.yml", disk, len(built) if longer else 0)
    shutil.rmtree(os.path.dirname(built))
    shutil.rmtree(disk)
    os.mkdir(disk)
    assert shown(cli, "job.yml", disk)


def shown(cli: Cli, job: str, disk: str, longer_than: int = 0) -> bool:
    """Whether everything of the run speaks of the place where the node has unpacked it."""
    result = cli("run", job)
    (place,) = (str(path) for path in Path(disk).glob("worldsize-*/envs/*/"))
    assert len(place) > longer_than
    expected = [place, "alpha 1.1", "%s/share/native fast %s" % (place, place), "1.0 conda %s" % place]
    assert sorted(result.lines) == sorted("0:0: " + line for line in expected), result
    return True
