"""agent.pyz: the agent as one file that any Python >= 3.8 can run, built once for each content of its sources."""

from __future__ import annotations

import io
import os

from worldsize.environment.objects import digest_of
from worldsize.plan.files import write_bytes
from worldsize.version import VERSION

_PACKAGES = ("agent", "plan", "state")
_EPOCH = (1980, 1, 1, 0, 0, 0)

# The first file that Python reads of the bundle: it must be readable by the Pythons that it refuses.
_MAIN = b"""\
import sys

if sys.version_info < (3, 8):
    sys.stderr.write(
        "worldsize: the agent needs Python 3.8 or newer, and %s is %d.%d\\n"
        "  -> name another one: `python:` of the compute in worldsize.toml\\n"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )
    sys.exit(2)

from worldsize.agent.__main__ import main

sys.exit(main(sys.argv[1:]))
"""


def agent_bundle(cache_dir: str) -> str:
    """The path of an agent.pyz of exactly this worldsize, in `cache_dir`, which is made (0700) if missing.

    The same sources give the same bytes; a reader sees the file whole or not at all. Raises OSError.
    """
    sources = _sources()
    key = repr((VERSION, [(name, status.st_mtime_ns, status.st_size) for name, _, status in sources]))
    path = os.path.join(cache_dir, "agent-%s-%s.pyz" % (VERSION, digest_of(key.encode())[:16]))
    if not os.path.exists(path):
        os.makedirs(cache_dir, 0o700, exist_ok=True)
        write_bytes(path, _zipped([(name, source) for name, source, _ in sources]))
    return path


def _sources() -> list[tuple[str, str, os.stat_result]]:
    """What the bundle holds: (name in it, path, status) of each file, in order."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    errors = os.path.join(root, "errors.py")
    found = [("worldsize/errors.py", errors, os.stat(errors))]
    for package in _PACKAGES:
        with os.scandir(os.path.join(root, package)) as entries:
            files = [entry for entry in entries if entry.name.endswith(".py")]
        found += [("worldsize/%s/%s" % (package, file.name), file.path, file.stat()) for file in files]
    return sorted(found, key=lambda source: source[0])


def _zipped(sources: list[tuple[str, str]]) -> bytes:
    from zipfile import ZIP_STORED, ZipFile, ZipInfo

    buffer = io.BytesIO()
    with ZipFile(buffer, "w", ZIP_STORED) as bundle:
        for name, data in (("__main__.py", _MAIN), ("worldsize/__init__.py", b"")):
            bundle.writestr(ZipInfo(name, _EPOCH), data)
        for name, path in sources:
            with open(path, "rb") as file:
                bundle.writestr(ZipInfo(name, _EPOCH), file.read())
    return buffer.getvalue()
