"""A launcher is a module and a row of facts: a toy one, which another package brings, starts a run of 2 x 2 ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from driver import lend_bundle
from other_packages import install_project, write_package

from worldsize.agent.launchers.base import Launcher
from worldsize.wings.plugins.agent.launcher import ExternalLauncher

pytestmark = pytest.mark.heavy

SOURCE = Path(__file__).resolve().parents[4] / "src"

PACKAGE = Path(__file__).resolve().parents[4] / "examples" / "toy-launcher"
LAUNCHER = (PACKAGE / "toy_launcher" / "launcher.py").read_text()

NODE = """
import sys

from worldsize.agent.launchers.base import find_launcher
from worldsize.plan.launchers import launcher_facts, load_launchers
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import read_masked_plan

paths = RunPaths(sys.argv[1])
plan = read_masked_plan(paths)
load_launchers(plan, paths)
print(type(find_launcher(plan.launcher).launcher).__name__, launcher_facts(plan.launcher).title)
"""

JOB = """
command: |
    echo "$RANK of $WORLD_SIZE on $NODE_RANK, $TOY: $(head -n 1 $WORLDSIZE_HOSTFILE)" > outputs/told-$RANK
    exit $CODE
environment_variables: {CODE: "0"}
distribution: {type: toy, process_count_per_instance: 2}
resources: {instance_count: 2}
"""


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    install_project(PACKAGE, tmp_path)
    (tmp_path / "job.yml").write_text(JOB)
    lend_bundle(str(tmp_path / "home"))
    return tmp_path


def worldsize(toys: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": "%s:%s" % (SOURCE, toys), "WORLDSIZE_HOME": str(toys / "home")}
    argv = [sys.executable, "-m", "worldsize", *words]
    return subprocess.run(argv, cwd=toys, env=environ, capture_output=True, text=True, timeout=100)


def run_directory(toys: Path) -> Path:
    (found,) = (path.parent for path in (toys / "home").rglob("plan.json"))
    return found


def test_a_toy_launcher_starts_a_run_from_end_to_end(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    run = run_directory(toys)
    told = [(run / "outputs" / ("told-%d" % rank)).read_text() for rank in range(4)]
    host = os.uname().nodename.partition(".")[0]
    assert told == ["%d of 4 on %d, prepared: %s slots=2\n" % (rank, rank // 2, host) for rank in range(4)]
    logs = {path.name for path in (run / "attempt-0" / "logs").iterdir()}
    assert {"toy-0000.log", "toy-0001.log", "rank-00003.log"} <= logs


def test_a_toy_launchers_failure_is_the_runs(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml", "--set", "environment_variables.CODE=7")
    assert done.returncode == 7
    assert "toy on node" in done.stdout + done.stderr and "ended with code 7" in done.stdout + done.stderr


def test_a_preview_shows_a_toy_launchers_processes(toys: Path) -> None:
    done = worldsize(toys, "run", "job.yml", "--dry-run")
    assert done.returncode == 0 and "launcher toy" in done.stdout
    assert "# toys 0 to 1\nsh -c" in done.stdout and "# toys 2 to 3\nsh -c" in done.stdout


def on_node(run: Path) -> subprocess.CompletedProcess[str]:
    """What a node, which has the run's directory and nothing else, makes of the plan's launcher."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(run / "agent.pyz")}
    argv = [sys.executable, "-S", "-c", NODE, str(run)]
    return subprocess.run(argv, cwd="/", env=environ, capture_output=True, text=True, timeout=100)


def test_nodes_load_it_from_the_runs_directory(toys: Path) -> None:
    assert worldsize(toys, "run", "job.yml").returncode == 0
    run = run_directory(toys)
    assert (run / "launcher-toy.py").read_text() == LAUNCHER
    done = on_node(run)
    assert done.stdout == "ToyLauncher toys {first} to {last}\n", done.stderr


@pytest.mark.exhaustive(
    unless=[
        "None-there is no launcher 'toy'",
        "FACTS = LAUNCHER = 1-the launcher toy cannot be used: its FACTS are not LauncherFacts",
    ]
)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no launcher 'toy'"),
        ("1 / 0", "the launcher toy cannot be loaded: ZeroDivisionError: division by zero"),
        ("LAUNCHER = 1", "the launcher toy lacks FACTS"),
        ("FACTS = LAUNCHER = 1", "the launcher toy cannot be used: its FACTS are not LauncherFacts"),
    ],
)
def test_what_is_no_launcher_on_a_node_is_one_sentence(toys: Path, text: str | None, says: str) -> None:
    assert worldsize(toys, "run", "job.yml").returncode == 0
    file = run_directory(toys) / "launcher-toy.py"
    file.unlink()
    if text is not None:
        file.write_text(text)
    assert says in on_node(file.parent).stderr.splitlines()[-1]


def test_it_means_on_a_node_what_it_means_here(toys: Path) -> None:
    """Its annotations, say, are no texts there where the file does not ask for that."""
    assert worldsize(toys, "run", "job.yml").returncode == 0
    file = run_directory(toys) / "launcher-toy.py"
    file.write_text(LAUNCHER + "\nclass Times:\n    seconds: int\n\nassert Times.__annotations__ == {'seconds': int}\n")
    done = on_node(file.parent)
    assert done.returncode == 0, done.stderr


def test_a_launcher_of_somebody_else_is_not_loaded(toys: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: the file of another user")
    assert worldsize(toys, "run", "job.yml").returncode == 0
    file = run_directory(toys) / "launcher-toy.py"
    os.chown(file, 4321, 4321)
    assert "belongs to another user" in on_node(file.parent).stderr


def test_each_element_of_an_array_has_it(toys: Path) -> None:
    with (toys / "job.yml").open("a") as file:
        file.write("count: 2\n")
    done = worldsize(toys, "run", "job.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((toys / "home").rglob("launcher-toy.py"))) == 3


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (
            "toy_launcher.launcher:LAUNCHER",
            "toy of toy-launcher 1.0 (toy_launcher.launcher:LAUNCHER) lacks FACTS, LAUNCHER",
        ),
        ("no_such", "the launcher toy of toy-launcher 1.0 (no_such) cannot be loaded: ModuleNotFoundError"),
        ("toy_package", "the launcher toy is not a single Python file, and cannot be copied to the nodes"),
        (None, "there is no launcher 'toy'"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_is_created(toys: Path, point: str | None, says: str) -> None:
    (toys / "toy_package").mkdir()
    (toys / "toy_package" / "__init__.py").write_text(LAUNCHER)
    points = next(toys.glob("*.dist-info")) / "entry_points.txt"
    line = "toy = toy_launcher.launcher\n"
    assert line in points.read_text()
    points.write_text(points.read_text().replace(line, "toy = %s\n" % point if point else ""))
    for option in ((), ("--dry-run",)):
        done = worldsize(toys, "run", "job.yml", *option)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    assert not list((toys / "home").rglob("plan.json"))


OWN = "toy of toy-launcher 1.0 (toy_launcher.launcher) "


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("class Odd(BaseException): pass\nraise Odd", "cannot be loaded: Odd"),
        ("FACTS = 5", "cannot be used: its FACTS are not LauncherFacts"),
        ("FACTS = FACTS._replace(title=5)", "cannot be used: in its FACTS ValueError: title is 5, which is not str"),
        ("FACTS = FACTS._replace(title='{toys}')", "cannot be used: in its FACTS KeyError: 'toys'"),
        ("LAUNCHER = 5", "cannot be used: its LAUNCHER lacks is_available, prepare, processes, failures, warnings"),
        ("ToyLauncher.processes = lambda *given: 1 / 0", "failed in processes: ZeroDivisionError: division by zero"),
        (
            "ToyLauncher.processes = lambda *given: ['toy']",
            "failed: processes returned ['toy'], which its protocol forbids",
        ),
    ],
)
def test_what_a_preview_finds_wrong_names_the_package(toys: Path, line: str, says: str) -> None:
    (toys / "toy_launcher" / "launcher.py").write_text("%s\n%s\n" % (LAUNCHER, line))
    done = worldsize(toys, "run", "job.yml", "--dry-run")
    assert done.returncode == 2 and "distribution.launcher: the launcher " + OWN + says in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive(
    unless=[
        "ToyLauncher.prepare = lambda *given: 1 / 0-126-failed in prepare: ZeroDivisionError: division by zero",
        "ToyLauncher.processes = lambda *given: []-126-failed: processes returned [], which its protocol forbids",
        "ToyLauncher.failures = lambda *given: None-7-failed: failures returned None, which its protocol forbids",
    ]
)
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("ToyLauncher.prepare = lambda *given: 1 / 0", 126, "failed in prepare: ZeroDivisionError: division by zero"),
        ("ToyLauncher.prepare = lambda *given: None", 126, "failed: prepare returned None"),
        (
            "ToyLauncher.processes = lambda *given: []",
            126,
            "failed: processes returned [], which its protocol forbids",
        ),
        ("ToyLauncher.failures = lambda *given: 1 / 0", 7, "failed in failures: ZeroDivisionError: division by zero"),
        (
            "ToyLauncher.failures = lambda *given: []",
            7,
            "failed: failures returned [], which its protocol forbids",
        ),
        (
            "ToyLauncher.failures = lambda *given: None",
            7,
            "failed: failures returned None, which its protocol forbids",
        ),
    ],
)
def test_what_it_does_wrong_on_a_node_is_the_runs_failure_in_one_sentence(
    toys: Path, line: str, code: int, says: str
) -> None:
    """No launcher makes a success of ranks that failed, or that it has not started."""
    (toys / "toy_launcher" / "launcher.py").write_text("%s\n%s\n" % (LAUNCHER, line))
    done = worldsize(toys, "run", "job.yml", "--set", "environment_variables.CODE=7")
    assert done.returncode == code and "the launcher " + OWN + says in done.stderr, done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_warnings_that_it_fails_to_tell_are_one() -> None:
    class Silent(Launcher):
        def warnings(self, *given: Any) -> Any:
            raise KeyError("x")

    (found,) = ExternalLauncher("toy", Silent()).warnings(None, None, [0])  # type: ignore[arg-type]
    assert found.text == "the launcher toy failed in warnings: KeyError: 'x'"


def test_one_out_of_an_archive_is_told(toys: Path) -> None:
    """Its package can be imported, and has no file that could travel."""
    with zipfile.ZipFile(toys / "toys.zip", "w") as archive:
        archive.write(PACKAGE / "toy_launcher" / "__init__.py", "zipped_toy/__init__.py")
        archive.writestr("zipped_toy/launcher.py", LAUNCHER)
    points = next(toys.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("= toy_launcher.launcher", "= zipped_toy.launcher"))
    environ = {**os.environ, "PYTHONPATH": "%s:%s:%s" % (SOURCE, toys, toys / "toys.zip")}
    environ["WORLDSIZE_HOME"] = str(toys / "home")
    argv = [sys.executable, "-m", "worldsize", "run", "job.yml"]
    done = subprocess.run(argv, cwd=toys, env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "the launcher toy is not a single Python file" in done.stderr


def test_two_packages_that_bring_one_launcher_are_both_named(toys: Path) -> None:
    write_package(toys, "other", "[worldsize.launchers]\ntoy = other_launcher\n", version="2")
    done = worldsize(toys, "run", "job.yml")
    assert done.returncode == 2
    assert "the launcher toy is provided by two packages: " in done.stderr
    assert "toy-launcher 1.0 (toy_launcher.launcher)" in done.stderr and "other 2 (other_launcher)" in done.stderr
