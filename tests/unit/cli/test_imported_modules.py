"""What looks at runs loads nothing of what supervises them: it would be a third of its start; and neither that nor a
plain run loads a wing, or looks for other packages'."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from other_packages import write_package

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.array import Array, array_file, element_root, handles_file
from worldsize.plan.plan import ArrayElement, Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.store.runs import create_run
from worldsize.store.started_from import note_start

SUPERVISOR = tuple("worldsize.agent." + name for name in ("control", "launchers", "local", "supervision"))
OPTIONAL = ("worldsize.wings.", "worldsize.entry_points", "worldsize_", "importlib.metadata", "importlib_metadata")
"""Wings, the simulator, the suite for other computes, and what finds other packages' parts."""
PROGRAM = """\
import sys
from worldsize.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
print("LOADED", *(name for name, module in sys.modules.items() if module), file=sys.stderr)
sys.exit(code)
"""
PARSER_PROGRAM = """\
import sys
from worldsize.cli.main import build_parser
build_parser(sys.argv[1:])
print("LOADED", *(name for name, module in sys.modules.items() if module), file=sys.stderr)
"""


def plan(paths: RunPaths, array: ArrayElement | None = None) -> Plan:
    return Plan(paths.run_id, "t", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {}, array=array)


def handle(paths: RunPaths) -> dict[str, object]:
    """Of a run on a machine that cannot be asked: nobody knows whether it has ended."""
    return {"type": "local", "host": "elsewhere", "pid": 1, "start_time": 1, "run_id": paths.run_id}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a run, and an array of two, that have not ended."""
    home = str(tmp_path / "home")
    monkeypatch.setenv("WORLDSIZE_HOME", home)
    run = create_run(home, now=lambda: 1795257118.0)
    write_text(run.plan, plan(run).to_json())
    write_json(run.handle, handle(run))
    array = create_run(home, now=lambda: 1795257119.0, array=True)
    elements = [RunPaths(element_root(array.root, number)) for number in range(2)]
    for number, paths in enumerate(elements):
        os.mkdir(paths.root)
        write_text(paths.plan, plan(paths, ArrayElement(number, 2, array.run_id)).to_json())
    write_text(array_file(array.root), Array(array.run_id, "t", "local", 1.0, 1, 1, 2).to_json())
    write_json(handles_file(array.root), [handle(paths) for paths in elements])
    for paths in (run, *elements):
        write_json(paths.record, {})
    return home


def modules_of(words: Sequence[str], program: str = PROGRAM) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.rpartition("LOADED")[2].split()


def test_list_of_runs_that_have_ended_loads_nothing_that_asks_a_compute(home: str) -> None:
    for name in os.listdir(os.path.join(home, "runs")):
        summary = {"id": name, "name": "t", "state": "SUCCEEDED", "reason": None, "compute": "local", "nodes": 1,
                   "ranks": 1, "created": 1.0, "started": 1.0, "ended": 2.0, "exit_code": 0}  # fmt: skip
        write_json(
            os.path.join(home, "runs", name, "result.json"), {"summary": summary, "message": "", "failure": None}
        )
    loaded = modules_of(["list"])
    asking = ("worldsize.compute.capabilities", "worldsize.compute.local")
    assert [name for name in loaded if name.startswith(asking)] == []


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["list", "list -e", "status", "status -o json", "logs"])
@pytest.mark.parametrize("which", ["run", "array", "element"])
def test_who_looks_at_runs_loads_no_supervisor(home: str, verb: str, which: str) -> None:
    array, run = sorted(os.listdir(os.path.join(home, "runs")), reverse=True)
    words = [*verb.split(), {"run": run, "array": array, "element": array + "_1"}[which]]
    loaded = modules_of(words)
    assert "worldsize.compute.local.compute" in loaded or verb == "logs", "the run's compute was asked"
    assert [name for name in loaded if name.startswith(SUPERVISOR)] == []


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["init", "schema", "diff", "convert", "prune"])
def test_completion_of_a_verb_reads_no_jobs_and_asks_no_compute(verb: str) -> None:
    """Each press of the key builds the parser of every verb."""
    loaded = modules_of([verb], PARSER_PROGRAM)
    heavy = tuple("worldsize." + name for name in ("jobspec.reading", "jobspec.dump", "compute.slurm", "compute.local"))
    assert "worldsize.wings" in loaded and [name for name in loaded if name.startswith(heavy)] == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [["--help"], ["list"], ["status"], ["logs"], ["run", "-w", "1x2", "--", "true"], ["run", "job.yml"]],
    ids=" ".join,
)
def test_neither_a_wing_nor_other_packages_parts_cost_a_start_anything(
    home: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a package is there, and a configuration: other packages are asked where a name is not worldsize's own."""
    write_package(tmp_path / "site", "own", "[worldsize.computes]\nown = own\n", {"own.py": "raise SystemExit(3)\n"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "site"), *filter(None, sys.path))))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worldsize.toml").write_text('[compute.lab]\ntype = "slurm"\ngrace = 5\n')
    (tmp_path / "job.yml").write_text("command: 'true'\ndistribution: {type: pytorch}\n")
    note_start(home, str(tmp_path), max(os.listdir(os.path.join(home, "runs"))))
    loaded = modules_of(words)
    assert "worldsize.cli.main" in loaded
    assert [name for name in loaded if (name + ".").startswith(OPTIONAL)] == []
