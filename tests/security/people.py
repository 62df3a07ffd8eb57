"""Several users of one machine: real processes of real uids, each with a home and a Python that all can execute.

The tests' own Python and checkout may lie where only root can go, so what people execute is linked into a directory
that everybody can read: the interpreter, worldsize, and what it depends on.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driver import SOURCE, Cli, lend_bundle

STRANGER, ANNA, BEN = 65534, 61001, 61002
_LEFT_OUT = shutil.ignore_patterns("test", "tests", "idlelib", "site-packages", "dist-packages", "lib2to3", "config-*")
_NAME, _EXTRA = re.compile(r"[A-Za-z0-9._-]+"), re.compile(r"extra == ['\"](.+?)['\"]")


class Machine:
    """The directory of all that these people share; removed in the end."""

    def __init__(self) -> None:
        self.root = tempfile.mkdtemp(prefix="worldsize-people-", dir="/tmp")
        os.chmod(self.root, 0o755)
        self.python = self._interpreter()
        self.library = os.path.join(self.root, "site")
        _link_tree(os.path.join(SOURCE, "worldsize"), os.path.join(self.library, "worldsize"))
        simulator = "worldsize_hpcpack_simulator"
        _link_tree(os.path.join(SOURCE, simulator), os.path.join(self.library, simulator))
        for name in _dependencies("worldsize", ("hpcpack", "simulator")):
            _link_distribution(name, self.library)
        self._number = 0

    def person(self, uid: int) -> Person:
        self._number += 1
        return Person(self, uid, os.path.join(self.root, "person-%d" % self._number))

    def directory(self, mode: int, uid: int = 0, gid: int = 0) -> str:
        """A new one that everybody can reach."""
        path = tempfile.mkdtemp(dir=self.root)
        os.chown(path, uid, gid)
        os.chmod(path, mode)
        return path

    def close(self) -> None:
        shutil.rmtree(self.root)

    @property
    def environ(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": os.path.join(self.root, "python", "lib"), "PYTHONDONTWRITEBYTECODE": "1"}

    def _interpreter(self) -> str:
        version = "python%d.%d" % sys.version_info[:2]
        target = os.path.join(self.root, "python")
        lib = os.path.join(sys.base_prefix, "lib")
        _link_tree(os.path.join(lib, version), os.path.join(target, "lib", version))
        for name in os.listdir(lib):
            if name.startswith("libpython") and os.path.isfile(os.path.join(lib, name)):
                _link(os.path.realpath(os.path.join(lib, name)), os.path.join(target, "lib", name))
        program = os.path.join(target, "bin", version)
        os.makedirs(os.path.dirname(program))
        _link(os.path.realpath(sys.executable), program)
        os.symlink(version, os.path.join(target, "bin", "python"))
        return program


class Person(Cli):
    """The command line, and any Python, as this user: nobody's groups, no capabilities. `prefix`: of every command."""

    def __init__(self, machine: Machine, uid: int, root: str) -> None:
        os.mkdir(root, 0o755)
        super().__init__(root)
        self.uid = uid
        self._machine = machine
        self.prefix: tuple[str, ...] = ()
        for path in (root, self.project):
            os.chown(path, uid, uid)
        self.environ.update(machine.environ, PYTHONPATH=machine.library)
        self.environ["PATH"] = "%s:%s" % (os.path.dirname(machine.python), os.defpath)
        self.environ.pop("TMPDIR", None)

    def start(self, *words: str, cwd: str | None = None, **environ: str) -> subprocess.Popen[bytes]:
        if words[:1] in (("run",), ("submit",)) and self.environ["WORLDSIZE_HOME"] == self.home and not environ:
            self._lend()
        return self._popen(["-m", "worldsize", *words], cwd or self.project, environ)

    def _lend(self) -> None:
        """As those of other tests, a home that is not there yet has an agent.pyz: here, as its person would make it."""
        if not os.path.lexists(self.home):
            lend_bundle(self.home)
            for path in (self.home, *map(str, Path(self.home).rglob("*"))):
                os.chown(path, self.uid, self.uid)

    def python(self, script: str, *words: str) -> str:
        """What a script of this user's prints; it must succeed."""
        with self.start_python(script, *words) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        return out.decode()

    def start_python(self, script: str, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        return self._popen(["-c", script, *words], self.project, environ)

    def write(self, name: str, text: str) -> str:
        path = made = super().write(name, text)
        while made != self.project:
            os.chown(made, self.uid, self.uid)
            made = os.path.dirname(made)
        return path

    def _popen(self, words: Sequence[str], cwd: str, environ: dict[str, str]) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {"user": self.uid, "group": self.uid, "extra_groups": ()}
        return subprocess.Popen(
            [*self.prefix, self._machine.python, *words],
            cwd=cwd,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            umask=0o022,
            **options,
        )


def _dependencies(name: str, extras: Sequence[str] = ()) -> set[str]:
    """The distributions that one needs to run with these of its extras, itself left out."""
    found: set[str] = set()
    left: list[tuple[str, Sequence[str]]] = [(name, extras)]
    while left:
        package, asked = left.pop()
        for wanted in importlib.metadata.requires(package) or ():
            match, extra = _NAME.match(wanted), _EXTRA.search(wanted)
            if match and match[0] not in found and (extra is None or extra[1] in asked):
                try:
                    importlib.metadata.distribution(match[0])
                except importlib.metadata.PackageNotFoundError:
                    continue  # another platform's or Python's
                found.add(match[0])
                left.append((match[0], ()))
    return found


def _link_distribution(name: str, library: str) -> None:
    for file in importlib.metadata.distribution(name).files or ():
        if ".." not in file.parts:
            target = Path(library, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            source = str(file.locate())
            if os.path.exists(source) and not target.exists():
                _link(source, str(target))


def _link_tree(source: str, target: str) -> None:
    shutil.copytree(source, target, copy_function=_link, ignore=_LEFT_OUT)
    os.chmod(target, 0o755)


def _link(source: str, target: str) -> None:
    """Everybody may read what was linked; a copy where it may not, or where another file system holds it."""
    if os.stat(source).st_mode & 0o044 == 0o044:
        try:
            os.link(source, target)
            return
        except OSError:
            pass
    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if os.access(source, os.X_OK) else 0o644)
