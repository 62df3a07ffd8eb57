"""Wheels and source archives made here, in a directory that stands for an index."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


class Links:
    """`lines` are what a requirements file says to take packages from here alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    @property
    def lines(self) -> list[str]:
        return ["--no-index", "--find-links %s" % self.directory]

    def requirements(self, *wanted: str) -> str:
        return "".join(line + "\n" for line in (*self.lines, *wanted))

    def wheel(
        self, name: str, version: str, files: Mapping[str, str] | None = None, requires: tuple[str, ...] = ()
    ) -> Path:
        """A pure wheel; without `files` a module of that name with `__version__`."""
        module = name.replace("-", "_")
        content = dict(files or {"%s.py" % module: "__version__ = %r\n" % version})
        info = "%s-%s.dist-info" % (module, version)
        needs = "".join("Requires-Dist: %s\n" % each for each in requires)
        content[info + "/METADATA"] = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s" % (name, version, needs)
        content[info + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        rows = ["%s,sha256=%s,%d" % (path, _digest(text), len(text)) for path, text in content.items()]
        content[info + "/RECORD"] = "\n".join([*rows, info + "/RECORD,,"]) + "\n"
        path = self.directory / ("%s-%s-py3-none-any.whl" % (module, version))
        with zipfile.ZipFile(path, "w") as archive:
            for place, text in content.items():
                archive.writestr(zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0)), text)
        return path

    def source(self, name: str, version: str, files: Mapping[str, str]) -> Path:
        """A source archive, as an index has it."""
        root = "%s-%s" % (name.replace("-", "_"), version)
        content = {**files, "PKG-INFO": "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)}
        path = self.directory / (root + ".tar.gz")
        with tarfile.open(path, "w:gz") as archive:
            for place, text in content.items():
                member = tarfile.TarInfo("%s/%s" % (root, place))
                member.size = len(text.encode())
                archive.addfile(member, io.BytesIO(text.encode()))
        return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
