"""The files of a release: sdist and wheel of worldsize, the wheel of the simulator, and the zipapp for machines without
pip. Each is made from the checkout, by the tools in requirements/release.txt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.release.metadata import repository_address

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
SIMULATOR = ROOT / "simulator"
ZIPAPP_EXTRAS = "hpcpack"
ZIPAPP_PYTHONS = ("310", "311", "312", "313", "314")
ZIPAPP_PROCESSORS = ("x86_64", "aarch64")
_VERSION = re.compile(r'VERSION = "([^"]+)"')
_HEADING = re.compile(r"^## (\S+), (\S+)$", re.MULTILINE)


class Refused(Exception):
    """A release cannot be made; the message says why."""


def version() -> str:
    """Return the version of this checkout."""
    match = _VERSION.search((ROOT / "src/worldsize/version.py").read_text(encoding="utf-8"))
    assert match
    return match[1]


def build_packages() -> list[Path]:
    """Write the packages of this checkout into dist/, and check them with twine; return their paths. The wheel is built
    from the sdist, so this holds all that a build needs."""
    environ = {**os.environ, "WORLDSIZE_REPOSITORY": _address(), "SOURCE_DATE_EPOCH": _commit_time()}
    with tempfile.TemporaryDirectory() as made:
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", made]
        _execute([*build, str(ROOT)], environ)
        _execute([*build, "--wheel", str(SIMULATOR)], environ)
        files = sorted(Path(made).iterdir())
        _execute([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], environ)
        return [_keep(file) for file in files]


def build_zipapp(wheel: Path) -> Path:
    """Write dist/worldsize.pyz, which contains the wheel and what it depends on for each supported Python and
    processor, and return its path. pex installs its content into ~/.cache/pex when it first runs."""
    with tempfile.TemporaryDirectory() as made:
        target = os.path.join(made, "worldsize.pyz")
        names = ["manylinux_2_17_%s-cp-%s-cp%s" % (cpu, py, py) for py in ZIPAPP_PYTHONS for cpu in ZIPAPP_PROCESSORS]
        platforms = [word for name in names for word in ("--platform", name)]
        # --venv: a Python that worldsize starts (its own) finds the same packages.
        options = ["--console-script", "worldsize", "--venv", "--python-shebang", "/usr/bin/env python3"]
        wanted = "worldsize[%s] @ %s" % (ZIPAPP_EXTRAS, wheel.resolve().as_uri())
        _execute([sys.executable, "-m", "pex", wanted, *options, "--output-file", target, *platforms], os.environ)
        return _keep(Path(target))


def check_tag(tag: str) -> None:
    """Raise Refused unless `tag` is the one of this checkout's version and CHANGELOG.md has a date for it."""
    if tag != "v" + version():
        raise Refused("the tag is %s, and src/worldsize/version.py says %s" % (tag, version()))
    newest, date = newest_release((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest != version() or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise Refused("CHANGELOG.md begins with '%s, %s', not with '%s, YEAR-MONTH-DAY'" % (newest, date, version()))


def newest_release(changelog: str) -> tuple[str, str]:
    """Return the version and the date (or "unreleased") of the first section of a CHANGELOG.md. Raise Refused for a
    text without a section."""
    match = _HEADING.search(changelog)
    if not match:
        raise Refused("CHANGELOG.md has no heading such as '## 1.2.3, unreleased'")
    return match[1], match[2]


def release_notes(changelog: str) -> str:
    """Return the first section of a CHANGELOG.md, without its heading. Raise Refused for a text without a section."""
    newest_release(changelog)
    return re.split(r"^## .*$", changelog, flags=re.MULTILINE)[1].strip()


def _keep(file: Path) -> Path:
    DIST.mkdir(exist_ok=True)
    return Path(shutil.move(file, DIST / file.name))


def _address() -> str:
    """Return the address of the repository: WORLDSIZE_REPOSITORY, else that of the remote `origin`; else ""."""
    given = os.environ.get("WORLDSIZE_REPOSITORY", "")
    if given and not repository_address(given):
        raise Refused("WORLDSIZE_REPOSITORY is not the address of a repository (https://HOST/PATH): %s" % given)
    return repository_address(given or _git("remote", "get-url", "origin"))


def _commit_time() -> str:
    """Return the time that files of the packages get, in seconds: that of the last commit, so builds are equal."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or "1577836800"


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _execute(command: Sequence[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise Refused("`%s` failed with code %d:\n%s" % (" ".join(command[:4]), done.returncode, done.stdout.rstrip()))
