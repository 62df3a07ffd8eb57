"""Files of a run that are nested deeper than anybody reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import Cli

DEEP = "[" * 200_000


@pytest.mark.parametrize("name", ["plan.json", "result.json", "handle.json", "attempt-0/exit/node-0000.json"])
def test_a_run_is_looked_at_all_the_same(tmp_path: Path, name: str) -> None:
    """Found by review: a traceback."""
    cli = Cli(str(tmp_path))
    run = cli.run("-q", "--", "true")
    if name != "result.json":
        Path(cli.path(run, "result.json")).unlink()
    Path(cli.path(run, name)).write_text(DEEP)
    Path(cli.path(run, "attempt-²")).mkdir()
    for words in (("status", run), ("logs", run), ("list",), ("wait", run)):
        looked = cli(*words, timeout=30)
        assert "Traceback" not in looked.err, (words, looked.err)
    cli.close()
