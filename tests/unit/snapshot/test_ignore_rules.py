"""Lines of ignore files that would take for ever to apply: they are left aside, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.snapshot.ignore_rules import IgnoreRules

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
