"""A trial of a release as a stranger has it: the wheels in a new environment, and the zipapp, each without a compiler,
without the checkout and without anybody's configuration."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from scripts.release.packages import Refused, version

PROGRAMS = ("sh", "env", "cat", "uname", "getconf", "ldd", "mount", "umount", "unshare", "ip", "id", "hostname")
"""The programs of the system that the trial's PATH has; no compiler, no git, no ssh."""


def try_wheels(dist: Path, place: Path) -> list[str]:
    """Install the wheels in `dist` into a new environment in `place`, with its dependencies from the index, and run a
    job on this machine and one on a simulated HPC Pack. Return the last line of each. Raise Refused if one fails."""
    environment = place / "environment"
    _call([sys.executable, "-m", "venv", str(environment)], place, dict(os.environ))
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([*pip, "--only-binary", ":all:", *map(str, sorted(dist.glob("*-%s-*.whl" % version())))], place, None)
    worldsize = str(environment / "bin" / "worldsize")
    environ = _clean(place, environment / "bin")
    return [_run_job([worldsize], place, environ), _run_on_simulator([worldsize], place, environ)]


def try_zipapp(file: Path, place: Path, python: str = sys.executable) -> list[str]:
    """Run a job with the zipapp on an interpreter. Return the last line. Raise Refused if it fails."""
    environ = _clean(place, Path(python).parent)
    return [_run_job([python, str(file)], place, environ)]


def unpack_sdist(dist: Path, place: Path) -> Path:
    """Unpack the sdist in `dist`, and return its directory."""
    with tarfile.open(dist / ("worldsize-%s.tar.gz" % version())) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:
            archive.extractall(place)  # nosec B202  # the archive that this checkout has made
    return place / ("worldsize-%s" % version())


def _clean(place: Path, *folders: Path) -> dict[str, str]:
    """Return the environment of somebody with these folders of programs and an empty home in `place`."""
    home, programs = place / "home", place / "programs"
    for folder in (home, programs):
        folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        found = shutil.which(name, path=os.defpath + ":/usr/sbin:/sbin")
        if found and not (programs / name).exists():
            (programs / name).symlink_to(found)
    return {"PATH": ":".join([*map(str, folders), str(programs)]), "HOME": str(home), "LC_ALL": "C.UTF-8"}


def _run_job(worldsize: Sequence[str], place: Path, environ: dict[str, str]) -> str:
    said = _call([*worldsize, "run", "-w", "2x2", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"], place, environ)
    ranks = sorted(re.findall(r"rank \d of 4", said))
    if ranks != ["rank %d of 4" % rank for rank in range(4)]:
        raise Refused("a run of 2 x 2 printed:\n%s" % said)
    return said.rstrip().rpartition("\n")[2]


def _run_on_simulator(worldsize: Sequence[str], place: Path, environ: dict[str, str]) -> str:
    """Start the simulator, run a job on the compute that it has configured, and stop it."""
    project = place / "simulated"
    project.mkdir(exist_ok=True)
    environ = {**environ, "WORLDSIZE_HPCPACK_PASSWORD": secrets.token_hex(16)}
    command = [*worldsize, "simulate", "hpcpack", "--nodes", "2", "--no-namespaces", "--share", str(project / "share")]
    log = place / "simulator.log"
    with (
        log.open("w") as file,
        subprocess.Popen(command, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=file, text=True) as server,
    ):
        try:
            assert server.stdout
            config = server.stdout.readline().strip()
            if not config:
                raise Refused("the simulator ended before it was ready:\n%s" % log.read_text())
            name = re.search(r"^\[compute\.(\S+)\]", Path(config).read_text(encoding="utf-8"), re.MULTILINE)
            assert name
            job = ["run", "--compute", name[1], "-w", "2x1", "--", "true"]
            return _call([*worldsize, *job], Path(config).parent, environ).rstrip().rpartition("\n")[2]
        finally:
            server.send_signal(signal.SIGINT)


def _call(command: Sequence[str], place: Path, environ: dict[str, str] | None) -> str:
    done = subprocess.run(
        command,
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Refused("`%s` failed with code %d:\n%s" % (" ".join(command), done.returncode, done.stdout.rstrip()))
    return done.stdout
