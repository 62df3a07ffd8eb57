"""Commands on nodes travel through the share, which several users have: what others have put there is not executed, and
what they lead to is not removed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpack.life import Client
from hpcpack.simulator import Simulator

STRANGER = 65534
VERBS = pytest.mark.parametrize("words", [("exec", "-w", "1", "--", "echo", "done"), ("hpcpack", "check")])


@pytest.fixture
def client(hpcpack: Simulator) -> Iterator[Client]:
    if os.geteuid() != 0:
        pytest.skip("only root can make what belongs to others")
    made = Client(hpcpack)
    yield made
    made.close()


@pytest.fixture
def share(hpcpack: Simulator) -> Iterator[Path]:
    """Open to everybody as /tmp is."""
    path = Path(hpcpack.share)
    mode = path.stat().st_mode
    path.chmod(0o1777)
    yield path
    path.chmod(mode & 0o7777)


@VERBS
def test_a_place_of_ones_own(client: Client, share: Path, words: tuple[str, ...]) -> None:
    client.configure(client.simulator.group("one", "cn01"))
    done = client(*words, timeout=60)
    assert done.code == 0, done
    place = share / ("runs-%d" % os.getuid()) / (".exec-%d" % os.getuid())
    assert place.stat().st_mode & 0o777 == 0o700 and not list(place.iterdir())
    assert not (share / "exec").exists()


@VERBS
@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_name_that_is_taken(client: Client, share: Path, tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    """Found by review: who made the directory first could exchange what others executed from it, and by a link had
    their files removed."""
    place = share / ("runs-%d" % os.getuid())
    shutil.rmtree(place, ignore_errors=True)
    (tmp_path / "thesis.tex").write_text("precious")
    if kind == "link":
        place.symlink_to(tmp_path)
    else:
        place.mkdir()
        place.chmod(0o777)
    os.chown(place, STRANGER, STRANGER, follow_symlinks=False)
    try:
        refused = client(*words, timeout=60)
        said = "the link belongs to" if kind == "link" else "it belongs to"
        assert refused.code != 0 and said in refused.out + refused.err, refused
        assert os.listdir(tmp_path) == ["thesis.tex"] and (kind == "link" or not list(place.iterdir()))
    finally:
        place.unlink() if kind == "link" else place.rmdir()


@pytest.mark.timeout(360)
def test_modules_that_others_put_on_the_share(client: Client, share: Path, tmp_path: Path) -> None:
    """Found by review: Python takes modules from its working directory, which was the share."""
    client.configure(client.simulator.group("one", "cn01"))  # each node that is looked at imports torch
    planted = [share / (name + ".py") for name in ("json", "platform", "torch", "subprocess")]
    for path in planted:
        path.write_text("open(%r, 'w').close()\n" % str(tmp_path / "executed"))
        os.chown(path, STRANGER, STRANGER)
    try:
        for words in (("hpcpack", "check"), ("env", "check"), ("env", "probe")):
            client(*words, *(() if words[0] == "hpcpack" else ("--compute", "hpcpack")), timeout=120)
    finally:
        for path in planted:
            path.unlink()
    assert not (tmp_path / "executed").exists()


@VERBS
def test_a_share_where_others_could_rename_it(client: Client, share: Path, words: tuple[str, ...]) -> None:
    share.chmod(0o777)
    refused = client(*words, timeout=60)
    said = refused.out + refused.err
    assert refused.code != 0 and "every user may write to it" in said and "config trust" in said
