"""A conda package whose files would lie outside of the environment."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import conda_packages
import pytest
from conda_packages import Package, text, write_package
from driver import Cli


def test_it_is_refused_and_leaves_nothing(
    cli: Cli, channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by review: rattler follows `..` in the names that a package gives, and the build succeeded."""
    from rattler.index import index_fs

    evil, content = tmp_path / "channel", text("evil\n")
    for name in ("noarch", "linux-64"):
        (evil / name).mkdir(parents=True)
    (interpreter,) = (channel / "linux-64").glob("python-*.tar.bz2")
    shutil.copyfile(interpreter, evil / "linux-64" / interpreter.name)
    ordinary = conda_packages._info

    def info(package: Package) -> dict[str, Any]:
        path = {
            "_path": "../evil-1.0-0/payload",
            "path_type": "hardlink",
            "sha256": hashlib.sha256(content.data).hexdigest(),
            "size_in_bytes": len(content.data),
        }
        return {**ordinary(package), "info/paths.json": text(json.dumps({"paths": [path], "paths_version": 1}))}

    monkeypatch.setattr(conda_packages, "_info", info)
    write_package(Package("evil", "1.0", {"payload": content}, build="0"), evil)
    asyncio.run(index_fs(evil))
    cli.write("environment.yml", "channels: ['file://%s']\ndependencies: [evil]\n" % evil)
    refused = cli("env", "build", "environment.yml")
    assert refused.code == 1 and "has a file outside the environment: ../evil-1.0-0/payload" in refused.err, refused
    envs = os.path.join(cli.home, "envs")
    assert [name for name in os.listdir(envs) if os.path.isdir(os.path.join(envs, name))] == []
