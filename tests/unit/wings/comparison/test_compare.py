"""What differs between two runs: their jobs, their code, what they were submitted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize.common.atomic_files import write_json, write_text
from worldsize.errors import DamagedRun, NotFound
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.run_record import RECORD_VERSION
from worldsize.snapshot.snapshot import write_manifest
from worldsize.wings.comparison.compare import compare, diff_trees

FIRST = {"same": ("file", 1, "a"), "changed": ("file", 1, "b"), "mode": ("file", 1, "c"), "removed": ("file", 1, "d")}
SECOND = {"same": FIRST["same"], "changed": ("file", 1, "e"), "mode": ("exec", 1, "c"), "added\udcff": ("link", 1, "f")}


def run(tmp_path: Path, name: str, job: str, files: dict[str, Any] | None, **environment: str) -> RunPaths:
    paths = RunPaths(str(tmp_path / name))
    (tmp_path / name).mkdir()
    write_text(paths.job, job)
    write_json(paths.record, {"version": RECORD_VERSION, "environment": environment, "python": "3.12"})
    if files is not None:
        write_manifest(paths.manifest, files)
    return paths


def test_two_trees_compared() -> None:
    found = diff_trees({"files": FIRST}, {"files": SECOND})
    assert found == {"added": ["added\udcff"], "removed": ["removed"], "changed": ["changed", "mode"]}
    assert not any(diff_trees({"files": SECOND}, {"files": SECOND}).values())


def test_two_runs_compared(tmp_path: Path) -> None:
    old = run(tmp_path, "r1", "command: a\ninputs: {lr: 0.1}\n", FIRST, LANG="C", PWD="/here", API_TOKEN="0123456789")
    new = run(tmp_path, "r2", "command: a\ninputs: {lr: 0.2}\n", None, LANG="C", PWD="/there", API_TOKEN="9876543210")
    found = compare(old, new)
    assert found["job"] == {"inputs.lr": [0.1, 0.2]}
    assert list(found["environment"]) == ["variable.API_TOKEN"], "noise of the shell counts for nothing"
    assert "0123456789" not in str(found) and "9876543210" not in str(found)
    assert found["code"] == {"added": [], "removed": sorted(FIRST), "changed": []}


def test_a_manifest_that_is_none_is_damaged(tmp_path: Path) -> None:
    old, new = (run(tmp_path, name, "command: a\n", FIRST) for name in ("r1", "r2"))
    for text in ("", "[]", '{"version":2,"files":{}}', '{"version":1}', '{"version":1,"files":[]}'):
        Path(new.manifest).write_text(text)
        with pytest.raises(DamagedRun, match="newer" if "2" in text else "cannot be understood") as told:
            compare(old, new)
        assert told.value.where == new.manifest and told.value.hint


def test_a_manifest_that_leads_nowhere(tmp_path: Path) -> None:
    old, new = (run(tmp_path, name, "command: a\n", None) for name in ("r1", "r2"))
    Path(new.manifest).symlink_to(tmp_path / "gone")
    with pytest.raises(NotFound, match="no manifest of the code"):
        compare(old, new)


def test_nodes_are_compared_where_agents_have_recorded_both(tmp_path: Path) -> None:
    old, new = (run(tmp_path, name, "command: a\n", None) for name in ("r1", "r2"))
    for paths, gpu in ((old, "V100"), (new, "A100")):
        assert compare(old, new)["nodes"] == {}
        table = {"hardware": [["CPU", "EPYC"], ["GPU", gpu]], "software": [["Python", "3.12"]]}
        record = {"version": 1, "nodes": [0], "host": "n1", "machine": gpu, "cores": 8, "gpus": 1, **table}
        Path(paths.facts_dir).mkdir(parents=True)
        write_json(paths.node_facts(0), record)
    assert compare(old, new)["nodes"] == {"GPU": ["V100", "A100"]}
    write_json(new.node_facts(0), {**record, "software": [], "complete": False})
    assert compare(old, new)["nodes"] == {}, "what nobody had the time to find out is no difference"
