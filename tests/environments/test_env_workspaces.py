"""A project below a directory in which everybody may make files: what uv would find there by and by."""

from __future__ import annotations

import json
from pathlib import Path

from driver import Cli
from wheels import Links


def test_no_workspace_is_taken_from_there(cli: Cli, tmp_path: Path) -> None:
    """Found by review: one was made after it had been looked for. So uv takes none at all, not even this user's."""
    tree = tmp_path / "shared" / "own" / "pkg"
    tree.mkdir(parents=True)
    (tmp_path / "shared").chmod(0o1777)
    evil = Links(tmp_path / "wheels").wheel("evil", "1")
    wanted = '[project]\nname = "pkg"\nversion = "1"\ndependencies = ["evil"]\n'
    (tree / "pyproject.toml").write_text(wanted)
    workspace = '[tool.uv.workspace]\nmembers = ["own/pkg"]\n[tool.uv.sources]\nevil = {path = "%s"}\n' % evil
    (tmp_path / "shared" / "pyproject.toml").write_text(workspace)
    pip = ["--no-index", "-r %s/pyproject.toml" % tree]
    cli.write("job.yml", json.dumps({"command": "true", "environment": {"python": ">=3.8", "pip": pip}}))
    refused = cli("run", "-q", "job.yml")
    assert refused.code != 0 and "evil was not found" in refused.err, refused


def test_ones_own_workspace_below_it_counts(cli: Cli, tmp_path: Path) -> None:
    tree = tmp_path / "shared" / "own" / "pkg"
    tree.mkdir(parents=True)
    (tmp_path / "shared").chmod(0o1777)
    good = Links(tmp_path / "wheels").wheel("good", "1")
    (tree / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1"\ndependencies = ["good"]\n')
    workspace = '[tool.uv.workspace]\nmembers = ["pkg"]\n[tool.uv.sources]\ngood = {path = "%s"}\n' % good
    (tree.parent / "pyproject.toml").write_text(workspace)
    pip = ["--no-index", "-r %s/pyproject.toml" % tree]
    job = {"command": "python -c 'import good'", "environment": {"python": ">=3.8", "pip": pip}}
    cli.write("job.yml", json.dumps(job))
    assert cli("run", "-q", "job.yml").code == 0
