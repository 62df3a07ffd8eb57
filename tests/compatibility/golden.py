"""Runs of every release, as files: how they are packed, unpacked and read. `tests/golden/RELEASE/` has an archive for
each run, `expected.json` with the answers about each, and `agent.pyz`, the release's agent."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver import Cli

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EXPECTED = "expected.json"
AGENT = "agent.pyz"
LEFT_OUT = re.compile(r"(^|/)(agent\.pyz|submission\.txt|inrank|__pycache__|samples|facts|stacks)(/|$)")
"""Parts of a run that the answers do not depend on, and that are the same in each run or describe the machine."""


def releases() -> list[str]:
    return sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def archives(release: str) -> list[Path]:
    return sorted((GOLDEN / release).glob("*.tar.gz"))


def run_id(archive: Path) -> str:
    with tarfile.open(archive) as file:
        return file.getnames()[0].partition("/")[0]


def pack(directory: str, target: Path, names: Mapping[str, str]) -> None:
    """Write the run in `directory` to `target`, with each text of `names` replaced wherever it stands."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        base = os.path.basename(directory)
        for folder, folders, files in os.walk(directory):
            folders.sort()
            inside = os.path.relpath(folder, directory)
            if LEFT_OUT.search(inside):
                continue
            for name in ["", *sorted(files), *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
                path = os.path.normpath(os.path.join(folder, name))
                place = os.path.normpath(os.path.join(base, inside, name))
                if not LEFT_OUT.search(place):
                    _add(archive, path, place, names)
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed:
        compressed.write(packed.getvalue())


def _add(archive: tarfile.TarFile, path: str, place: str, names: Mapping[str, str]) -> None:
    entry = archive.gettarinfo(path, place)
    if not (entry.isfile() or entry.isdir() or entry.issym()):
        return  # a socket
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    if entry.issym():
        entry.linkname = replaced(entry.linkname.encode(), names).decode()
    if not entry.isfile():
        archive.addfile(entry)
        return
    content = replaced(Path(path).read_bytes(), names)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def replaced(content: bytes, names: Mapping[str, str]) -> bytes:
    for old in sorted(names, key=len, reverse=True):
        content = content.replace(old.encode(), names[old].encode())
    return content


def pack_agent(agent: str, target: Path) -> None:
    """Write the agent to `target`, compressed, with one time for all of its files."""
    with zipfile.ZipFile(agent) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for entry in source.infolist():
            if not entry.filename.endswith(".pyc"):
                made.writestr(zipfile.ZipInfo(entry.filename), source.read(entry), zipfile.ZIP_DEFLATED, 9)


def unpack(archive: Path, home: str) -> str:
    """Unpack a run into the runs of a home, and return its id."""
    runs = os.path.join(home, "runs")
    os.makedirs(runs, mode=0o700, exist_ok=True)
    with tarfile.open(archive) as file:
        if hasattr(tarfile, "fully_trusted_filter"):
            file.extractall(runs, filter="fully_trusted")
        else:
            file.extractall(runs)
    return run_id(archive)


def read(cli: Cli, run: str) -> dict[str, Any]:
    """What the commands answer about a run, as far as no release may change it."""
    status = cli.json("status", run)
    elements = [each["id"] for each in status["elements"]] if "elements" in status else []
    said: dict[str, Any] = {"state": status["state"], "exit_code": status["exit_code"]}
    if elements:
        return {**said, "elements": [read(cli, each) for each in elements]}
    failure = status["failure"] or {}
    cause = cli.json("why", run)["cause"] or {}
    described = cli.json("describe", run)
    return {
        **said,
        "reason": status["reason"],
        "message": status["message"],
        "compute": status["compute"],
        "failure": {key: failure.get(key) for key in ("rank", "node_rank", "code", "reason")} if failure else None,
        "cause": {key: cause.get(key) for key in ("id", "standing", "rank")} if cause else None,
        "logs": sorted(cli.ok("logs", run, "--fold", "off").lines),
        "outputs": sorted(each["path"] for each in cli.json("outputs", run)),
        "described": {key: described[key] for key in ("id", "name", "state") if key in described},
    }


def expected(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / release / EXPECTED).read_text(encoding="utf-8"))
    return found
