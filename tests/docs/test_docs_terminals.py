"""The terminals of the documentation show what the commands print now."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import DOCS, ROOT
from scripts.documentation.pictures.terminal_svg import BLANK

_TEXT = re.compile(r'<text y="\d+">(.*?)</text>')
_VARIES = (
    (r"\d{8}-\d{6}-\w{6}", "RUN"),
    (r"\d\d:\d\d:\d\d\.\d{3}", "TIME"),
    (r"after [\d.]+ s", "after SOME s"),
)


def shown_lines(picture: Path) -> list[str]:
    """The lines of a terminal in any order, since ranks print in any; without what differs from run to run."""
    lines = [re.sub("<[^>]*>", "", text) for text in _TEXT.findall(picture.read_text(encoding="utf-8"))]
    text = html.unescape("\n".join(lines)).replace(BLANK, " ")
    for pattern, word in _VARIES:
        text = re.sub(pattern, word, text)
    return sorted(line for line in text.splitlines() if "share this machine's" not in line)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["failure", "merged-log", "why"])
def test_a_terminal_shows_what_is_printed(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.documentation.pictures", name, "--to", str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    drawn = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert drawn.returncode == 0, drawn.stderr
    lines = shown_lines(DOCS / "pictures" / (name + ".svg"))
    assert len(lines) > 8
    assert shown_lines(tmp_path / (name + ".svg")) == lines, "run: make pictures PICTURE=%s" % name
