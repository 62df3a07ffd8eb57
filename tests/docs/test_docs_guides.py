"""docs/guides.md: the tests that it names exist, every row says how it is proved, and some rows are proved here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, environment

_TESTS = ROOT / "tests"
_SOURCE = ROOT / "src"
_ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in (ROOT / "docs" / "guides.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| the guide", "| ---"))
]
_CITED = sorted({name for row in _ROWS for name in re.findall(r"`([\w/]+\.py::\w+)`", row[2])})


def test_there_are_rows() -> None:
    assert len(_ROWS) > 50


@pytest.mark.parametrize("name", _CITED)
def test_a_cited_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    text = (_TESTS / file).read_text(encoding="utf-8")
    for module in re.findall(r"^from (worldsize_conformance\.\w+) import \*", text, re.MULTILINE):
        text += (_SOURCE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    assert re.search(r"^def %s\(" % function, text, re.MULTILINE)


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0][:30])
def test_a_row_without_a_test_claims_nothing(row: list[str]) -> None:
    assert len(row) == 4
    assert row[3]
    if not row[2]:
        assert row[3].startswith(("not yet", "yours"))


def worldsize(folder: Path, job: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.yml").write_text(job, encoding="utf-8")
    environ = {**environment(folder / "home"), **variables}
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def refused(folder: Path, job: str, *words: str) -> str:
    done = worldsize(folder, job, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert not (folder / "home" / ".worldsize" / "runs").exists()
    return done.stderr


def test_more_processes_than_gpus_are_refused(tmp_path: Path) -> None:
    (tmp_path / "worldsize.toml").write_text("[compute.local]\ngpus_per_node = 4\n")
    job = "command: 'true'\ndistribution:\n  type: pytorch\n"
    assert "8 processes per node, but a node has 4 GPUs" in refused(tmp_path, job, "-w", "2x8")


def test_as_many_processes_as_gpus_and_shared_ones_run(tmp_path: Path) -> None:
    (tmp_path / "worldsize.toml").write_text("[compute.local]\ngpus_per_node = 2\n")
    job = "command: echo $CUDA_VISIBLE_DEVICES\nvisible_devices: true\n"
    assert sorted(worldsize(tmp_path, job, "-w", "1x2").stdout.splitlines()) == ["0:0: 0", "0:1: 1"]


def test_uris_of_the_service_are_refused_with_the_way_out(tmp_path: Path) -> None:
    for uri in ("azureml:data:1", "azureml://datastores/d/paths/p", "azureml://registries/r/data/d/versions/1"):
        folder = tmp_path / uri.replace("/", "-")
        folder.mkdir()
        job = "command: ls ${{inputs.data}}\ninputs:\n  data:\n    type: uri_folder\n    path: %s\n" % uri
        said = refused(folder, job)
        assert "job.yml:5" in said
        assert "local path" in said


def test_a_world_size_against_the_plan_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, "command: 'true'\nenvironment_variables:\n  WORLD_SIZE: 16\n", "-w", "2x4")
    assert "job.yml:3: environment_variables.WORLD_SIZE" in said
    assert "the plan makes it 8, the job 16" in said


def test_the_activated_environments_python_is_used(tmp_path: Path) -> None:
    activated = tmp_path / "mynewenv" / "bin"
    activated.mkdir(parents=True)
    (activated / "python").write_text("#!/bin/sh\necho mine\n")
    (activated / "python").chmod(0o755)
    path = os.pathsep.join((str(activated), os.environ["PATH"]))
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        (tmp_path / name).mkdir()
        variables = {"PATH": path, name: str(tmp_path / "mynewenv")}
        done = worldsize(tmp_path / name, "command: python -c 1\n", **variables)
        assert done.stdout == "0:0: mine\n", done


def test_paths_reach_the_ranks(tmp_path: Path) -> None:
    job = "command: echo $LD_LIBRARY_PATH $NCCL_DEBUG\nenvironment_variables:\n  LD_LIBRARY_PATH: /opt/nccl/lib\n"
    assert worldsize(tmp_path, job, NCCL_DEBUG="INFO").stdout == "0:0: /opt/nccl/lib INFO\n"
