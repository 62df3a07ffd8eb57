"""The umask of a command beside the ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_a_command_beside_the_ranks_has_theirs(tmp_path: Path) -> None:
    script = "import sys; from worldsize.wings.node_commands.agent.run_command import main; main([])"
    for keys, expected in (({"ranks_umask": 0o027}, "0027"), ({"ranks_umask": None}, "0077"), ({}, "0077")):
        plan = {"run_id": "none-such", "umask": 0o077, "path": [], "visible_devices": False, "environment": {}, **keys}
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        order = {
            "plan": str(tmp_path / "plan.json"), "nodes": [0], "variable": None, "ranks": {}, "grace": 1,
            "argv": ["sh", "-c", 'umask >"$0"', str(tmp_path / "told")], "cwd": str(tmp_path), "hook": "", "set": {},
            "scrub": {"prefixes": [], "names": [], "kept": []},
        }  # fmt: skip
        environ = {**os.environ, "WORLDSIZE_ORDER": json.dumps(order)}
        with subprocess.Popen([sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE) as process:
            assert process.wait(60) == 0  # the open standard input is its lifeline
        assert (tmp_path / "told").read_text() == expected + "\n"
