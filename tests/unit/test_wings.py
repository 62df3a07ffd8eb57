"""Each wing is a folder below `worldsize/wings`: without it, the core's own tests stay green."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WINGS = sorted(each.name for each in (ROOT / "src/worldsize/wings").iterdir() if (each / "__init__.py").is_file())
CORE_TESTS = ("tests/unit", "--ignore=tests/unit/wings", "--ignore=tests/unit/test_wings.py")


def core_without(wings, directory):
    """A copy of the sources without these wings, in a new `directory`."""
    shutil.copytree(ROOT / "src", directory, ignore=shutil.ignore_patterns("__pycache__"))
    for wing in wings:
        shutil.rmtree(directory / "worldsize/wings" / wing)
    return directory


def run_core_tests(sources):
    environment = dict(os.environ, PYTHONPATH=str(sources))
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not timing",
        "-x",
        *CORE_TESTS,
    ]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


def imported_without(sources, wings):
    """What importing every module of the core says, with these `sources`."""
    program = (
        "import pkgutil, importlib, worldsize\n"
        "for each in pkgutil.walk_packages(worldsize.__path__, 'worldsize.'):\n"
        "    if each.name.startswith(('worldsize.inrank', 'worldsize.wings')) or each.name.endswith('__main__'):\n"
        "        continue\n"
        "    importlib.import_module(each.name)\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(sources))
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_core_passes_its_tests_without_any_wing(tmp_path):
    done = run_core_tests(core_without(WINGS, tmp_path / "src"))
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS)
def test_the_core_passes_its_tests_without_one_wing(wing, tmp_path):
    done = run_core_tests(core_without([wing], tmp_path / "src"))
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_module_of_the_core_can_be_imported_without_wings(tmp_path):
    done = imported_without(core_without(WINGS, tmp_path / "src"), WINGS)
    assert done.returncode == 0, done.stderr


def test_a_verb_of_a_missing_wing_is_one_sentence(tmp_path):
    sources = core_without(WINGS, tmp_path / "src")
    words = [sys.executable, "-m", "worldsize", "convert", "train.py"]
    done = subprocess.run(words, env=dict(os.environ, PYTHONPATH=str(sources)), capture_output=True, text=True)
    assert done.returncode == 2
    assert "`worldsize convert` is not part of this installation" in done.stderr
    assert "Traceback" not in done.stderr


NEEDS = {
    "building environments": "environment: {pip: [demo]}",
    "running ranks in container images": "environment: {image: 'docker://alpine'}",
    "downloading inputs": "inputs: {data: {path: 'https://localhost/data'}}",
    "`stage:`": "stage: {data: {a: 'https://localhost/data'}}",
    "getting the nodes' disks ready": "inputs: {data: {path: '.', mode: ro_mount}}",
    "unpacking environments on nodes": "environment: demo.tar.gz",
}


@pytest.fixture(scope="module")
def without_wings(tmp_path_factory):
    return core_without(WINGS, tmp_path_factory.mktemp("core") / "src")


def run_job(sources, directory, job, *options):
    """A job file with these lines, by these sources."""
    (directory / "job.yml").write_text("command: command -v python\n%s\n" % job)
    environment = dict(os.environ, PYTHONPATH=str(sources), WORLDSIZE_HOME=str(directory / "home"))
    words = [sys.executable, "-m", "worldsize", "run", *options, "job.yml"]
    return subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("option", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize("what", NEEDS)
def test_a_job_that_needs_a_missing_wing_is_one_sentence(what, option, without_wings, tmp_path):
    (tmp_path / "demo.tar.gz").write_bytes(b"")
    done = run_job(without_wings, tmp_path, NEEDS[what], *option)
    assert done.returncode == 2 and done.stdout == ""
    assert "%s is not part of this installation of worldsize" % what in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 3
    assert not (tmp_path / "home" / "runs").exists()


def test_an_environment_that_exists_needs_no_wing(without_wings, tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    os.symlink(sys.executable, tmp_path / "env" / "bin" / "python")
    done = run_job(without_wings, tmp_path, "environment: ./env\nsecrets: [HOME]\noffline: true")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0:0: %s\n" % (tmp_path / "env" / "bin" / "python")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", "job.slurm"], "what runs batch scripts"),
        (["run", "job.yml"], "what runs batch scripts"),
        (["rehearse", "--", "true"], "a rehearsal"),
        (["run", "--virtual-gpus", "2", "--", "true"], "a rehearsal"),
        (["run", "--data-parallel", "--", "true"], "`data_parallel`"),
    ],
)
def test_a_way_to_start_that_needs_a_missing_wing_is_one_sentence(words, what, tmp_path):
    sources = core_without(WINGS, tmp_path / "src")
    (tmp_path / "job.slurm").write_text("#!/bin/bash\nsrun true\n")
    (tmp_path / "job.yml").write_text("batch_script: job.slurm\n")
    environ = dict(os.environ, PYTHONPATH=str(sources), WORLDSIZE_HOME=str(tmp_path / "home"))
    argv = [sys.executable, "-m", "worldsize", words[0], "--dry-run", *words[1:]]
    done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert f"{what} is not part of this installation of worldsize" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_of_a_missing_wing_is_one_sentence(tmp_path):
    sources = core_without(WINGS, tmp_path / "src")
    words = [sys.executable, "-c", "import worldsize\nworldsize.shard"]
    done = subprocess.run(words, env=dict(os.environ, PYTHONPATH=str(sources)), capture_output=True, text=True)
    assert "ConfigError: worldsize.shard is not part of this installation of worldsize" in done.stderr
