"""Real conda packages, made here: a Python interpreter repackaged, Python packages, native ones."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

PLACEHOLDER = "/placehold_" * 23
"""253 characters: what conda-build puts in place of the prefix, so that a shorter one fits into a binary."""

_LEFT_OUT = frozenset(
    ("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages", "__pycache__", "pydoc_data")
)

_OF_A_DISTRIBUTION = "EXTERNALLY-MANAGED"
"""The file by which Debian's and Ubuntu's Python keeps pip away from it."""

_IN_A_VENV = b'sys.base_prefix != sys.prefix or hasattr(sys, "real_prefix")'
"""When such a Python has its packages in site-packages, as its site.py and sysconfig say; one of conda always has."""

_SITE = """import os, site, sys
site.addsitedir(os.path.join(sys.prefix, "lib", "python%d.%d" % sys.version_info[:2], "site-packages"))
"""
"""Does so where site.py is compiled into the program."""


class File(NamedTuple):
    """One file of a package. `prefix`: the text in it that stands for the prefix, and how it is replaced."""

    data: bytes = b""
    mode: int = 0o644
    link: str | None = None
    prefix: tuple[str, str] | None = None


class Package(NamedTuple):
    name: str
    version: str
    files: Mapping[str, File]
    depends: tuple[str, ...] = ()
    build: str = "0"
    number: int = 0
    noarch: str | None = None
    entry_points: tuple[str, ...] = ()
    subdir: str = "linux-64"

    @property
    def file_name(self) -> str:
        return "%s-%s-%s.tar.bz2" % (self.name, self.version, self.build)


def text(content: str, mode: int = 0o644, prefix: str | None = None) -> File:
    return File(content.encode(), mode, prefix=(prefix, "text") if prefix else None)


def write_package(package: Package, channel: Path) -> Path:
    directory = channel / ("noarch" if package.noarch else package.subdir)
    directory.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, file in {**_info(package), **package.files}.items():
            _add(archive, name, file)
    path = directory / package.file_name
    path.write_bytes(bz2.compress(buffer.getvalue(), 1))
    return path


def _add(archive: tarfile.TarFile, name: str, file: File) -> None:
    member = tarfile.TarInfo(name)
    member.mode = file.mode
    if file.link is not None:
        member.type, member.linkname = tarfile.SYMTYPE, file.link
        archive.addfile(member)
        return
    member.size = len(file.data)
    archive.addfile(member, io.BytesIO(file.data))


def _info(package: Package) -> dict[str, File]:
    index = {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": package.number,
        "depends": list(package.depends),
        "arch": None if package.noarch else "x86_64",
        "platform": None if package.noarch else "linux",
        "subdir": "noarch" if package.noarch else package.subdir,
        "license": "MIT",
        "timestamp": 1700000000000,
    }
    if package.noarch:
        index["noarch"] = package.noarch
    paths = [_path(*item) for item in package.files.items()]
    found = {
        "info/index.json": text(json.dumps(index)),
        "info/files": text("".join(name + "\n" for name in package.files)),
        "info/paths.json": text(json.dumps({"paths": paths, "paths_version": 1})),
        "info/about.json": text("{}"),
    }  # fmt: skip
    if package.noarch == "python":
        link = {"noarch": {"type": "python", "entry_points": list(package.entry_points)}, "package_metadata_version": 1}
        found["info/link.json"] = text(json.dumps(link))
    placed = ["%s %s %s" % (*file.prefix, name) for name, file in package.files.items() if file.prefix]
    if placed:
        found["info/has_prefix"] = text("\n".join(placed) + "\n")
    return found


def _path(name: str, file: File) -> dict[str, Any]:
    found: dict[str, Any] = {
        "_path": name,
        "path_type": "softlink" if file.link is not None else "hardlink",
        "sha256": hashlib.sha256(file.data).hexdigest(),
        "size_in_bytes": len(file.data),
    }
    if file.prefix:
        found.update(prefix_placeholder=file.prefix[0], file_mode=file.prefix[1])
    return found


def dist_info(name: str, version: str, files: list[str], where: str = "site-packages") -> dict[str, File]:
    """What makes a Python package a distribution that pip knows."""
    base = "%s/%s-%s.dist-info" % (where, name.replace("-", "_"), version)
    record = "".join("%s,,\n" % path.removeprefix(where + "/") for path in files)
    return {
        base + "/METADATA": text("Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)),
        base + "/INSTALLER": text("conda\n"),
        base + "/WHEEL": text("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        base + "/RECORD": text(record),
    }


def python_package(
    name: str,
    version: str,
    modules: Mapping[str, str],
    depends: tuple[str, ...] = (),
    entry_points: tuple[str, ...] = (),
    distribution: bool = True,
) -> Package:
    """A noarch Python package; without `distribution` pip cannot know that it is there."""
    files = {"site-packages/" + path: text(content) for path, content in modules.items()}
    if distribution:
        files.update(dist_info(name, version, list(files)))
    return Package(name, version, files, ("python >=3.8", *depends), noarch="python", entry_points=entry_points)


def interpreter() -> Package:
    """The Python that runs the tests as a package: its library is found relative to the program, as conda's is."""
    root, version = sys.base_prefix, "%d.%d" % sys.version_info[:2]
    files: dict[str, File] = {}
    program = "bin/python%s" % version
    files[program] = File(_relocated(Path(root, program).resolve().read_bytes(), root), 0o755)
    for link in ("bin/python", "bin/python3"):
        files[link] = File(link="python%s" % version, mode=0o777)
    for library in sorted(Path(root, "lib").glob("libpython%s*.so*" % version)):
        if library.is_symlink():
            files["lib/" + library.name] = File(link=os.readlink(library), mode=0o777)
        else:
            files["lib/" + library.name] = File(_relocated(library.read_bytes(), root), 0o755)
    for place in ("lib/python" + version, "include/python" + version):
        files.update(_tree(root, place))
    files["lib/python%s/site-packages/README.txt" % version] = text("packages\n")
    if _IN_A_VENV in files["lib/python%s/site.py" % version].data:
        files["lib/python%s/sitecustomize.py" % version] = text(_SITE)
    full = "%d.%d.%d" % sys.version_info[:3]
    return Package("python", full, files, ("__glibc >=2.17",), build="0_cpython")


def _relocated(data: bytes, root: str) -> bytes:
    """The directory that the loader searches, made relative to the program: shorter, so the file stays as long."""
    absolute, relative = ("%s/lib\0" % root).encode(), b"$ORIGIN/../lib"
    return data.replace(absolute, relative.ljust(len(absolute), b"\0")) if len(absolute) >= len(relative) else data


def _tree(root: str, place: str) -> dict[str, File]:
    found: dict[str, File] = {}
    for directory, directories, names in os.walk(os.path.join(root, place)):
        directories[:] = sorted(
            each for each in directories if each not in _LEFT_OUT and not each.startswith("config-")
        )
        for name in sorted(names):
            path = Path(directory, name)
            if name.endswith((".pyc", ".a", ".exe", ".whl", _OF_A_DISTRIBUTION)) or path.is_symlink():
                continue
            data = path.read_bytes()
            if "sysconfig" in str(path):
                data = data.replace(_IN_A_VENV, b"True")
            held = root.encode() in data and b"\0" not in data
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            found[str(path.relative_to(root))] = File(data, mode, prefix=(root, "text") if held else None)
    return found


NATIVE_C = (
    """\
#include <stdio.h>
static const char prefix[] = "%s";
const char *native_prefix(void) { return prefix; }
int native_answer(void) { return 42; }
"""
    % PLACEHOLDER
)
WHERE_C = """\
#include <stdio.h>
const char *native_prefix(void);
int main(void) { puts(native_prefix()); return 0; }
"""


def native(directory: Path) -> Package:
    """A library with the prefix inside, a program linked to it, a header, and scripts that activation has to run."""
    (directory / "native.c").write_text(NATIVE_C)
    (directory / "where.c").write_text(WHERE_C)
    gcc = ["gcc", "-O1", "-o"]
    subprocess.run([*gcc, "libnative.so", "-shared", "-fPIC", "native.c"], cwd=directory, check=True)
    link = ["-L.", "-lnative", "-Wl,-rpath,$ORIGIN/../lib"]
    subprocess.run([*gcc, "native-where", "where.c", *link], cwd=directory, check=True)
    files = {
        "lib/libnative.so": File((directory / "libnative.so").read_bytes(), 0o755, prefix=(PLACEHOLDER, "binary")),
        "bin/native-where": File((directory / "native-where").read_bytes(), 0o755),
        "include/native.h": text("int native_answer(void);\n"),
        "etc/native.conf": text("root = %s/share\n" % PLACEHOLDER, prefix=PLACEHOLDER),
        "etc/conda/activate.d/native.sh": text('export NATIVE_HOME="$CONDA_PREFIX/share/native"\n'),
        "etc/conda/env_vars.d/native.json": text('{"NATIVE_MODE": "fast"}'),
    }
    return Package("native", "1.2", files)


def packages(directory: Path) -> list[Package]:
    """The whole channel."""
    say = "def say():\n    print('alpha', __version__)\n"
    return [
        interpreter(),
        native(directory),
        *(
            python_package("alpha", version, {"alpha/__init__.py": "__version__ = %r\n%s" % (version, say)},
                           entry_points=("alpha-say = alpha:say",))
            for version in ("1.0", "1.1", "2.0")
        ),
        python_package("beta", "1.0", {"beta.py": "import alpha\n", "shared/util.py": "FROM = 'conda'\n"},
                       ("alpha >=1,<2",), distribution=False),
        Package("accel", "1.0", {"share/accel": text("cpu\n")}, build="cpu_0"),
        Package("accel", "1.0", {"share/accel": text("cuda\n")}, ("__cuda >=12",), build="cuda_1", number=1),
        Package("modern", "1.0", {"share/modern": text("old\n")}, ("__unix", "__linux")),
        Package("modern", "2.0", {"share/modern": text("new\n")}, ("__glibc >=99",)),
    ]  # fmt: skip


def write_channel(channel: Path, scratch: Path) -> None:
    """A channel as a directory, with its index."""
    import asyncio

    from rattler.index import index_fs

    (channel / "noarch").mkdir(parents=True)
    for package in packages(scratch):
        write_package(package, channel)
    asyncio.run(index_fs(channel))
