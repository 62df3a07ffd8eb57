"""Make and try a release: `python -m scripts.release dist | pyz | try | check-tag TAG | notes`. The first two need the
environment of requirements/release.txt.

    dist            the packages of this checkout, in dist/, checked by twine
    pyz             dist/worldsize.pyz, from the wheel in dist/
    try             what is in dist/ as a stranger would use it; also the fast tests of the sdist with --tests
    check-tag TAG   whether the checkout may be released under this tag
    notes           the part of CHANGELOG.md about this version

WORLDSIZE_REPOSITORY names the repository that the packages link to; by default it is that of the remote `origin`. Exit
code: 1 if something failed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.release import packages, trial


def main(words: Sequence[str]) -> int:
    try:
        if words[:1] == ["dist"]:
            show(packages.build_packages())
        elif words[:1] == ["pyz"]:
            show([packages.build_zipapp(wheel())])
        elif words[:1] == ["try"]:
            with tempfile.TemporaryDirectory(prefix="worldsize-release-") as place:
                try_release(Path(place), "--tests" in words)
        elif words[:1] == ["check-tag"] and len(words) == 2:
            packages.check_tag(words[1])
        elif words == ["notes"]:
            print(packages.release_notes((packages.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except packages.Refused as refused:
        print("!!  %s" % refused, file=sys.stderr)
        return 1
    return 0


def wheel() -> Path:
    """Return the wheel of this version in dist/. Raise Refused if there is none."""
    path = packages.DIST / ("worldsize-%s-py3-none-any.whl" % packages.version())
    if not path.exists():
        raise packages.Refused("there is no %s: make dist" % path.relative_to(packages.ROOT))
    return path


def try_release(place: Path, tests: bool) -> None:
    """Try what is in dist/, in the directory `place`. Raise Refused for what fails."""
    wheel()
    for line in trial.try_wheels(packages.DIST, place):
        print("==> wheels: %s" % line, flush=True)
    zipapp = packages.DIST / "worldsize.pyz"
    if zipapp.exists():
        print("==> worldsize.pyz: %s" % trial.try_zipapp(zipapp, place)[0], flush=True)
    if tests:
        source = trial.unpack_sdist(packages.DIST, place)
        print("==> make test-fast in %s" % source.name, flush=True)
        if subprocess.call(["make", "test-fast"], cwd=source, env={**os.environ, "MAKEFLAGS": ""}):
            raise packages.Refused("the tests of the sdist failed")


def show(files: Sequence[Path]) -> None:
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print("%s  %6.2f MB  sha256 %s" % (path.relative_to(packages.ROOT), path.stat().st_size / 1e6, digest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
