"""Where a batch script finds its directory of runs: what bash, and sh, say of it, when the job starts."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from worldsize.compute.slurm.script_trust import TRUST_FUNCTIONS, trusted_components
from worldsize.errors import StorageError
from worldsize.trust.decisions import remove_decision, write_decision

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")


def is_reliable(path: object, trusted: str = "") -> bool:
    script = "\n".join(("TRUSTED=%s OWN=%d" % (shlex.quote(trusted), os.geteuid()), *TRUST_FUNCTIONS, 'reliable "$1"'))
    codes = [subprocess.run([shell, "-c", script, "job.sh", str(path)]).returncode for shell in ("bash", "sh")]
    assert len({code == 0 for code in codes}) == 1
    return codes[0] == 0


def trusted_by_decision(path: object, opened: Path) -> str:
    """TRUSTED once the user trusts a directory that is refused before."""
    with pytest.raises(StorageError):
        trusted_components(str(path))
    write_decision(str(opened), True, os.environ)
    return trusted_components(str(path))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "of: all [a-z]:" / "runs"
    path.mkdir(parents=True)
    return path


def test_a_directory_of_ones_own(runs: Path) -> None:
    assert is_reliable(runs) and trusted_components(str(runs)) == ""
    assert not is_reliable(runs / "missing")
    runs.chmod(0o1777)
    assert is_reliable(runs), "others cannot touch what is there"


@pytest.mark.parametrize("deep", [False, True])
def test_a_directory_that_others_can_write_to(runs: Path, deep: bool) -> None:
    """Found by review: one that nobody trusts was written down as trusted, if it came after the check."""
    opened = runs.parent if deep else runs
    opened.chmod(0o777)
    assert not is_reliable(runs)
    trusted = trusted_by_decision(runs, opened)
    assert is_reliable(runs, trusted), "as it was when the script was written"
    opened.chmod(0o733)
    assert not is_reliable(runs, trusted)


@pytest.mark.heavy
def test_links_of_ones_own(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runs.parent)
    (tmp_path / "relative").symlink_to("link/../%s/runs" % runs.parent.name)
    assert is_reliable(tmp_path / "link" / "runs") and is_reliable(tmp_path / "relative")
    runs.parent.chmod(0o777)
    for path in (tmp_path / "link" / "runs", tmp_path / "relative"):
        assert not is_reliable(path)
        assert is_reliable(path, trusted_by_decision(path, runs.parent))
        remove_decision(str(runs.parent), os.environ)
    (tmp_path / "loop").symlink_to("loop")
    assert not is_reliable(tmp_path / "loop") and trusted_components(str(tmp_path / "missing" / "loop")) == ""


@as_root
def test_a_link_of_anothers(runs: Path, tmp_path: Path) -> None:
    """Found by review: a link led to a directory of the user's while it was looked at, and elsewhere afterwards."""
    (tmp_path / "theirs").symlink_to(runs)
    for name in ("own", "own:"):
        (tmp_path / name).symlink_to("theirs")
    os.chown(tmp_path / "theirs", 65534, 65534, follow_symlinks=False)
    for name in ("theirs", "own", "own:"):
        assert not is_reliable(tmp_path / name)
        with pytest.raises(StorageError, match="the link belongs to"):
            trusted_components(str(tmp_path / name))


@as_root
def test_a_directory_of_anothers(runs: Path) -> None:
    os.chown(runs.parent, 65534, 65534)
    assert not is_reliable(runs)
    assert is_reliable(runs, trusted_by_decision(runs, runs.parent))
    os.chown(runs.parent, 65533, 65534)
    assert not is_reliable(runs, "|65534:65534:drwxr-xr-x:%s|" % runs.parent)
