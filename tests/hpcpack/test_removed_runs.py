"""A run whose directory its owner removed while it waited, where others can make one of its name."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpack.life import Client
from hpcpack.simulator import Simulator

STRANGER = 65534


@pytest.fixture
def share(hpcpack: Simulator) -> Iterator[Path]:
    """Open to everybody as /tmp is."""
    path = Path(hpcpack.share)
    mode, before = path.stat().st_mode, set(path.iterdir())
    path.chmod(0o1777)
    yield path
    path.chmod(mode & 0o7777)
    for each in set(path.iterdir()) - before:
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


@pytest.fixture
def client(hpcpack: Simulator, share: Path) -> Iterator[Client]:
    if os.geteuid() != 0:
        pytest.skip("only root can make what belongs to others")
    made = Client(hpcpack)
    made.configure('runs_dir = "%s"' % share)
    yield made
    made.close()


def take(root: str, owner: int, mode: int) -> None:
    """What somebody else makes of the name, or moves there."""
    shutil.rmtree(root)
    os.mkdir(root)
    with zipfile.ZipFile(os.path.join(root, "agent.pyz"), "w") as file:
        file.writestr("__main__.py", "open('/app/executed', 'w')\n")
    os.chmod(root, mode)
    os.chown(root, owner, owner)


@pytest.mark.parametrize(("owner", "mode"), [(STRANGER, 0o755), (0, 0o777)], ids=["made", "moved"])
def test_nothing_that_somebody_else_put_there_is_executed(client: Client, share: Path, owner: int, mode: int) -> None:
    """Found by review: the task started what lay there."""
    first = client.running("4x1")
    second = client.submit("-w", "1", "--", "true")
    job, root = client.number(second), os.path.realpath(client.path(second))
    take(root, owner, mode)
    client.ok("cancel", first)
    assert client.simulator.wait(job)["State"] == "Failed"
    assert client.simulator.task(job)["Output"].strip() == "worldsize agent: not your run"
    assert not (share / "executed").exists()


def test_a_run_that_waited_and_is_still_there(client: Client) -> None:
    first = client.running("4x1")
    second = client.submit("-w", "1", "--", "true")
    client.ok("cancel", first)
    assert client.ended(second)["state"] == "SUCCEEDED"


def test_a_run_whose_setup_took_its_time(client: Client, share: Path) -> None:
    """Its node's agent went on with what lay there by then."""
    client.job("touch /app/trained", "1x1", setup=["touch /app/up; until test -e /app/go; do sleep 0.05; done"])
    run = client.submit("job.yml")
    job, root = client.number(run), os.path.realpath(client.path(run))
    client.simulator.wait(job, "Running")
    while not (share / "up").exists():
        assert client.simulator.job(job)["State"] == "Running"
    os.rename(root, root + ".away")
    shutil.copytree(root + ".away", root, symlinks=True)
    os.chown(root, STRANGER, STRANGER)
    (share / "go").touch()
    assert client.simulator.wait(job)["State"] == "Failed"
    assert not (share / "trained").exists()
