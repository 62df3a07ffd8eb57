"""docs/tutorial/first-cluster.md: from the installation to a run on the cluster, typed as the page says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from docs.documents import ROOT, matches, run_steps, steps
from slurm.login import Login

PAGE = ROOT / "docs" / "tutorial" / "first-cluster.md"
PATIENCE = 240


@pytest.mark.exhaustive
@pytest.mark.timeout(PATIENCE + 60)
def test_the_walk_from_a_script_to_the_cluster(login: Login) -> None:
    home, folder = Path(login.root, "person"), Path(login.root, "person", "first")
    folder.mkdir(parents=True)
    (home / "worldsize").symlink_to(ROOT)
    python = os.path.dirname(os.path.realpath(sys.executable))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WORLDSIZE_", "VIRTUAL_", "PYTHON"))
    }
    environ = {**kept, "HOME": str(home), "SLURM_CONF": login.environ["SLURM_CONF"], "WORLDSIZE_TRUST_PROJECT": "1"}
    environ["PATH"] = os.pathsep.join((python, kept["PATH"]))
    todo = steps(PAGE)
    printed = run_steps(todo, folder, environ, PATIENCE)
    wrong = [
        "first-cluster.md:%d\n$ %s\n--- the page says\n%s--- it printed\n%s"
        % (step.line, step.text, step.printed, actual)
        for step, actual in zip(todo, printed, strict=True)
        if not matches(step.printed, actual)
    ]
    assert not wrong, "\n\n".join(wrong)
