"""Builder of agent.pyz: the agent as one file that any Python >= 3.8 can run, built once for each content of its
sources.

The bundle contains each source and its bytecode for the Python that made the bundle. If that Python runs the agent, as
on most clusters, the nodes need not compile, which takes longer than everything else that the agent does before its
ranks run. Another Python ignores the bytecode (zipimport compares the magic number) and compiles.
"""

from __future__ import annotations

import io
import os
import sys

from worldsize.common.atomic_files import write_bytes
from worldsize.common.digests import digest_of
from worldsize.trust.directories import make_private_directory
from worldsize.version import VERSION

_PACKAGES = ("agent", "common", "plan", "state", "trust")
_MODULES = ("errors.py", "registry.py")
_FOLDERS_OF_WINGS = ("agent", "judgement")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_identities: dict[str, str] = {}
"""The first result of `_identity`, by the root of the sources. It is kept because this process executes the modules
that it has loaded, too."""

_EPOCH = (1980, 1, 1, 0, 0, 0)

# The first file that Python reads of the bundle. Old Pythons, which it refuses, must be able to parse it.
_MAIN = b"""\
import sys

if sys.version_info < (3, 8):
    sys.stderr.write(
        "worldsize: the agent needs Python 3.8 or newer, and %s is %d.%d\\n"
        "  -> name another one: `python:` of the compute in worldsize.toml\\n"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )
    sys.exit(2)

from worldsize.agent.__main__ import run_and_exit

run_and_exit()
"""


def ensure_agent_bundle(cache_dir: str, small: bool = False) -> str:
    """Return the path of an agent.pyz of exactly this worldsize in `cache_dir`, and build it if it is missing.
    `cache_dir` is made (0700) if missing.

    `small` is for a script in which the bundle is embedded and compressed: it is without bytecode. The same sources
    give the same bytes. A reader sees the file whole or not at all. Raise OSError.
    """
    identity = _identities.get(_ROOT)
    if identity is None:
        identity = _identities[_ROOT] = _identity()
    digest = digest_of(repr((VERSION, sys.implementation.cache_tag, identity)).encode())
    kind = "-small" if small else ""
    path = os.path.join(cache_dir, f"agent-{VERSION}-{digest[:16]}{kind}.pyz")
    make_private_directory(cache_dir, follow=True)
    if not os.path.exists(path):
        write_bytes(path, _archive_bytes(_sources(), small))
    return path


def ensure_bytecode(source: str, cache_dir: str) -> str:
    """Return the path, in `cache_dir`, of the compiled module `source`: a .pyc that this Python accepts without
    comparing it to the age of the source. It is made if it is missing. Raise OSError."""
    status = os.stat(source)
    key = repr((VERSION, sys.implementation.cache_tag, source, status.st_mtime_ns, status.st_size))
    name = os.path.basename(source)
    make_private_directory(cache_dir, follow=True)
    path = os.path.join(cache_dir, f"{name}-{digest_of(key.encode())[:16]}.pyc")
    if not os.path.exists(path):
        with open(source, "rb") as file:
            compiled = _pyc_bytes(name, file.read())
        write_bytes(path, compiled)
    return path


def _identity() -> str:
    """Return a text that identifies the version of the sources that agent.pyz is built from. For an installed worldsize
    it is the digest of its list of files with their checksums, so that one file is read. For a checkout it is the
    modification time and the size of each source."""
    record = os.path.join(os.path.dirname(_ROOT), f"worldsize-{VERSION}.dist-info", "RECORD")
    try:
        with open(record, "rb") as file:
            return digest_of(file.read())
    except OSError:
        found = ((name, os.stat(path)) for name, path in _sources())
        return repr([(name, status.st_mtime_ns, status.st_size) for name, status in found])


def _sources() -> list[tuple[str, str]]:
    """Return the source files that agent.pyz contains, as (name in the bundle, path), sorted."""
    found = [(f"worldsize/{name}", os.path.join(_ROOT, name)) for name in _MODULES]
    for package in _PACKAGES:
        found += _sources_below(os.path.join(_ROOT, package), f"worldsize/{package}/")
    return sorted(found + _sources_of_wings(os.path.join(_ROOT, "wings")))


def _sources_of_wings(wings: str) -> list[tuple[str, str]]:
    """Return (name in agent.pyz, path) of the source files of each wing in the directory `wings` that belong to the
    bundle, with the empty `__init__.py` of the folders above them. A folder without `__init__.py` is left out: it may
    be what Python has left of a wing that was removed."""
    found = []
    for wing in os.listdir(wings):
        folder = os.path.join(wings, wing)
        travelling = [
            (name, os.path.join(folder, name)) for name in _FOLDERS_OF_WINGS
            if os.path.exists(os.path.join(folder, name, "__init__.py"))
        ]  # fmt: skip
        for name, path in travelling:
            found += _sources_below(path, f"worldsize/wings/{wing}/{name}/")
        if travelling:
            found.append((f"worldsize/wings/{wing}/__init__.py", os.path.join(folder, "__init__.py")))
    return [*found, ("worldsize/wings/__init__.py", os.path.join(wings, "__init__.py"))] if found else []


def _sources_below(folder: str, name: str) -> list[tuple[str, str]]:
    """Return (name in agent.pyz, path) of the source files in `folder` and its subfolders. `name` is the prefix of the
    names in the bundle. Entries without a suffix are read as folders."""
    found = []
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        if entry.endswith(".py"):
            found.append((name + entry, path))
        elif "." not in entry and entry != "__pycache__" and os.path.isdir(path):
            found += _sources_below(path, name + entry + "/")
    return found


def _archive_bytes(sources: list[tuple[str, str]], small: bool) -> bytes:
    from zipfile import ZipFile, ZipInfo

    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as bundle:
        for name, data in (("__main__.py", _MAIN), ("worldsize/__init__.py", b"")):
            bundle.writestr(ZipInfo(name, _EPOCH), data)
        for name, path in sources:
            with open(path, "rb") as file:
                source = file.read()
            bundle.writestr(ZipInfo(name, _EPOCH), source)
            if not small:
                bundle.writestr(ZipInfo(name + "c", _EPOCH), _pyc_bytes(name, source))
    return buffer.getvalue()


def _pyc_bytes(name: str, source: bytes) -> bytes:
    """Return the bytes of a .pyc file for a Python `source`, without docstrings, that is valid independently of the
    source's time stamp (PEP 552, unchecked). Python looks for it first."""
    import marshal
    from importlib.util import MAGIC_NUMBER, source_hash

    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(source) + marshal.dumps(code)
