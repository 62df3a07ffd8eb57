"""Something that looks like an environment, and a pack of it."""

from __future__ import annotations

import os
from pathlib import Path

from worldsize.environment.existing import ExistingEnvironment
from worldsize.service.request import EnvironmentPack
from worldsize.wings.provisioning.pack import pack


def a_prefix(tmp_path: Path, name: str = "env") -> Path:
    """What looks like an environment: scripts, links, a binary file, something large."""
    prefix = tmp_path / name
    for folder in ("bin", "lib/python3.11/site-packages/pkg", "empty"):
        (prefix / folder).mkdir(parents=True)
    (prefix / "bin/python3.11").write_bytes(b"\x7fELF\0" + str(prefix).encode() + b"/lib\0\0\0rest")
    os.symlink("python3.11", prefix / "bin/python")
    os.symlink(prefix / "lib", prefix / "lib64")
    os.symlink("/etc/hostname", prefix / "away")
    (prefix / "bin/tool").write_text("#!%s/bin/python\nprint('%s')\n" % (prefix, prefix))
    (prefix / "bin/tool").chmod(0o755)
    (prefix / "lib/large").write_bytes(os.urandom(9 << 20))
    os.link(prefix / "lib/large", prefix / "lib/same")
    (prefix / "lib/python3.11/site-packages/pkg/__init__.py").write_text("VALUE = 5\n")
    (prefix / ("lib/" + "long" * 40)).write_text("a name longer than a tar header's")
    return prefix


def packed(prefix: Path, target: Path, kind: str = "prefix") -> EnvironmentPack:
    return pack(ExistingEnvironment(str(prefix), kind, (3, 11)), str(target))
