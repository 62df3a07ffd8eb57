"""The program that docs/reference/python.md spells out, block by block, runs and prints what the page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from documents import blocks, environment, find_page, matches, run_steps, steps

_PAGE = find_page("python.md")
_MARK = "\x1e"


def test_page_prints_what_it_says(tmp_path: Path) -> None:
    environ = environment(tmp_path / "home")
    folder = tmp_path / "project"
    folder.mkdir()
    run_steps([step for step in steps(_PAGE) if step.name], folder, environ)
    program, expected = "", []
    for block in blocks(_PAGE):
        if block.language == "python" and not block.file_name:
            program += block.text + "print(%r)\n" % _MARK
            expected.append(("", block.line))
        elif block.language == "text":
            expected[-1] = (block.text, block.line)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(_MARK + "\n")
    for (text, line), actual in zip(expected, printed, strict=False):
        assert matches(text, actual), "python.md:%d: it printed\n%s" % (line, actual)
    assert len(expected) >= 6
