"""Files in the place of a conda package's that cannot be read to their end."""

from __future__ import annotations

import json
import os
from pathlib import Path

from worldsize.wings.environments.inspect.installed import ClobberedFile, find_clobbered


def owned(prefix: Path, *names: str) -> None:
    """A conda package with these files, as it says of itself."""
    paths = [{"_path": name, "path_type": "hardlink", "sha256": "0" * 64} for name in names]
    (prefix / "conda-meta").mkdir()
    value = {"name": "odd", "version": "1", "build": "0", "files": list(names), "paths_data": {"paths": paths}}
    (prefix / "conda-meta" / "odd-1-0.json").write_text(json.dumps(value))


def test_what_has_no_end_in_the_place_of_a_file_of_condas(tmp_path: Path) -> None:
    """Found by review: to compare it, a device was read for ever, and a pipe waited for."""
    os.symlink("/dev/zero", tmp_path / "device")
    os.mkfifo(tmp_path / "pipe")
    outside = os.path.relpath("/dev/zero", os.path.realpath(tmp_path))
    owned(tmp_path, "device", "pipe", outside)
    found = find_clobbered(str(tmp_path), None, [])
    assert found == sorted(ClobberedFile(name, "odd", "changed", None) for name in ("device", "pipe", outside))
