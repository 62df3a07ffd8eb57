"""Files of a job's code, or of an environment, that take for ever to look at: they are left aside, and said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.snapshot.ignore_rules import IgnoreRules
from worldsize.wings.environments.conda.clobbered_files import ClobberedFile, find_clobbered
from worldsize.wings.staging.download_scan import downloads_of

MANY = "a*" * 25 + "b"


def rules(tmp_path: Path, name: str, text: str) -> tuple[IgnoreRules, list[str]]:
    """Those of a directory whose .gitignore, or .amlignore, says `text`; and the warnings."""
    (tmp_path / name).write_text(text)
    warnings: list[str] = []
    return IgnoreRules().enter(str(tmp_path), "", {name}, warnings), warnings


@pytest.mark.parametrize("name", [".gitignore", ".amlignore"])
@pytest.mark.parametrize("line", [MANY, "!" + MANY, "/" + MANY, "deep/%s/er" % MANY, "*" * 7 + "b", "\\#" + MANY])
def test_a_line_with_many_stars(tmp_path: Path, name: str, line: str) -> None:
    """Found by review: one name that nearly fits was searched for ever."""
    found, warnings = rules(tmp_path, name, "*.log\n%s\n*.ckpt\n" % line)
    assert len(warnings) == 1 and "%s:2: more than 6 stars in a name" % name in warnings[0]
    for path in ("a" * 200, "deep/%s/er" % ("a" * 200)):
        assert not found.is_ignored(path, False)
    assert found.is_ignored("x.log", False) and found.is_ignored("sub/x.ckpt", False)


@pytest.mark.parametrize(
    "line", ["# " + "*" * 70, "#" + MANY, "*a*b*c*d*e*", "**/a/**/b/**/*x*/**/c", "/".join(["a*"] * 9)]
)
def test_lines_of_people(tmp_path: Path, line: str) -> None:
    """A comment's stars do no harm, nor do those of several names."""
    found, warnings = rules(tmp_path, ".gitignore", line + "\n*.log\n")
    assert warnings == []
    assert found.is_ignored("x.log", False)


def test_six_stars_are_a_pattern(tmp_path: Path) -> None:
    found, warnings = rules(tmp_path, ".gitignore", "*a*b*c*d*e*\n")
    assert warnings == [] and found.is_ignored("1a2b3c4d5e6", False) and not found.is_ignored("1a2b3c4d5", False)


def owned(prefix: Path, *names: str) -> None:
    """A conda package with these files, as it says of itself."""
    paths = [{"_path": name, "path_type": "hardlink", "sha256": "0" * 64} for name in names]
    (prefix / "conda-meta").mkdir()
    value = {"name": "odd", "version": "1", "build": "0", "files": list(names), "paths_data": {"paths": paths}}
    (prefix / "conda-meta" / "odd-1-0.json").write_text(json.dumps(value))


def test_what_has_no_end_in_the_place_of_a_file_of_condas(tmp_path: Path) -> None:
    """Found by review: to compare it, a device was read for ever, and a pipe waited for."""
    os.symlink("/dev/zero", tmp_path / "device")
    os.mkfifo(tmp_path / "pipe")
    outside = os.path.relpath("/dev/zero", os.path.realpath(tmp_path))
    owned(tmp_path, "device", "pipe", outside)
    found = find_clobbered(str(tmp_path), None, [])
    assert found == sorted(ClobberedFile(name, "odd", "changed", None) for name in ("device", "pipe", outside))


def test_a_program_that_cannot_be_parsed(tmp_path: Path) -> None:
    """Found by review: the parser's MemoryError was a traceback."""
    (tmp_path / "t.py").write_text("-" * 200_000 + "1")
    (tmp_path / "u.py").write_text("import t\nimport wandb\nwandb.init()\n")
    assert downloads_of(str(tmp_path), "python t.py") == []
    assert [each.name for each in downloads_of(str(tmp_path), "python u.py")] == ["wandb"]
