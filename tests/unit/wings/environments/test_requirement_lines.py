"""The lines of a requirements file: as pip and uv both take them, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import UsageError
from worldsize.wings.environments.pip.requirement_lines import lines_of


def said(tmp_path: Path, data: bytes) -> list[str]:
    path = tmp_path / "requirements.txt"
    path.write_bytes(data)
    return lines_of(str(path))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a==1 \\\n  --hash=x\nb # why\n", ["a==1   --hash=x", "b"]),
        ("a\r\nb \\\r\n  --pre\r\n", ["a", "b   --pre"]),
        ("# a comment \\\nb\n", ["b"]),
        ("a \\\n# ends it\nb\n", ["a", "b"]),
        ("a \\\n# ends it \\\nb\n", ["a", "b"]),
        ("a \\", ["a"]),
    ],
)
def test_a_line_goes_on_as_pip_has_it(tmp_path: Path, text: str, lines: list[str]) -> None:
    """Found by review: a comment that ended in a backslash hid the next line from worldsize, and from nobody else."""
    assert said(tmp_path, text.encode()) == lines


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_what_a_windows_shell_has_written(tmp_path: Path, encoding: str) -> None:
    assert said(tmp_path, "ä # é\nb\n".encode(encoding)) == ["ä", "b"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"a\nb # \rc\n", "requirements.txt:2: a line end other"),
        (b"# \x0bc\n", "a line end other"),
        ("# \x85c\n".encode(), "a line end other"),
        ("# \u2028c\n".encode(), "a line end other"),
        (b"a\nb\0c\n", "requirements.txt:2: a null character"),
        (b"a # why \\\nb\n", "requirements.txt:1: a comment that ends in a backslash"),
        (b"# -*- coding: utf_7 -*-\na\n", "declares the encoding utf_7"),
    ],
)
def test_what_pip_reads_otherwise_than_uv_is_refused(tmp_path: Path, data: bytes, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        said(tmp_path, data)
    assert what in str(caught.value) and caught.value.hint
