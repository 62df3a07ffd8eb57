"""Each wing is a folder, most below `worldsize/wings`: without it, the core's own tests stay green."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIMULATOR = "worldsize_hpcpack_simulator"
SOURCE = ROOT / "src"
WINGS = sorted(
    [SIMULATOR, *(str(each.parent.relative_to(SOURCE)) for each in SOURCE.glob("worldsize/wings/*/__init__.py"))]
)
CORE_TESTS = ("tests/unit", "--ignore=tests/unit/wings", "--ignore=tests/unit/test_wings.py")


def core_without(wings, directory):
    """A copy of the sources without these wings, in a new `directory`."""
    shutil.copytree(SOURCE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    for wing in wings:
        shutil.rmtree(directory / wing)
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
@pytest.mark.parametrize("wing", WINGS, ids=[wing.rpartition("/")[2] for wing in WINGS])
def test_the_core_passes_its_tests_without_one_wing(wing, tmp_path):
    done = run_core_tests(core_without([wing], tmp_path / "src"))
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_module_of_the_core_can_be_imported_without_wings(tmp_path):
    done = imported_without(core_without(WINGS, tmp_path / "src"), WINGS)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def without_wings(tmp_path):
    """Runs the command line of a core without wings, in a project of its own."""
    sources = core_without(WINGS, tmp_path / "src")
    project = tmp_path / "project"
    project.mkdir()

    def run(*words, config=""):
        (project / "worldsize.toml").write_text(config)
        environ = dict(os.environ, PYTHONPATH=str(sources), HOME=str(project), WORLDSIZE_HOME=str(project / "home"))
        environ["WORLDSIZE_TRUST_PROJECT"] = "1"
        command = [sys.executable, "-m", "worldsize", *words]
        return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("words", [("convert", "train.py"), ("simulate", "hpcpack"), ("hpcpack", "check")])
def test_a_verb_of_a_missing_wing_is_one_sentence(without_wings, words):
    done = without_wings(*words)
    assert done.returncode == 2
    assert "`worldsize %s` is not part of this installation" % words[0] in done.stderr
    assert "Traceback" not in done.stderr


CLUSTER = """
[compute.head]
type = "hpcpack"
url = "https://127.0.0.1:9"
node_group = "GPU"
"""


def test_a_compute_of_a_missing_wing_is_one_sentence(without_wings):
    done = without_wings("run", "--compute", "head", "--", "true", config=CLUSTER)
    assert done.returncode == 2
    assert "the compute type hpcpack is not part of this installation" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_computes_go_on_without_it(without_wings):
    done = without_wings("run", "--", "echo", "there", config=CLUSTER)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0:0: there\n" or done.stdout == "there\n"
