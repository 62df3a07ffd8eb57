"""Batch scripts in the styles of public ones: what plain sbatch completes completes through worldsize on the same
cluster, with the same code and the same ranks; the script itself, and the job file that `import` makes of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from slurm.login import PATIENCE, Login

SCRIPTS = Path(__file__).parents[2] / "unit" / "wings" / "batch_scripts" / "public_styles"
ALWAYS = ("launcher_variable.slurm", "functions.slurm")
"""The others are for test-all."""

OWN = re.compile(r"(?<=settings\.)\d+|(?<=double )\d+|\btmp\.\w+")
"""What scripts make of the number of their job, and of the moment."""

RANK = re.compile(r"^(?:\d+: )?rank .* of .*$", re.MULTILINE)


def parameter(path: Path) -> object:
    marks = () if path.name in ALWAYS else pytest.mark.exhaustive
    return pytest.param(path.name, id=path.stem, marks=marks)


@pytest.fixture
def project(login: Login) -> str:
    """The directory with the scripts, whose stand-ins for launchers are the user's own programs."""
    project = os.path.join(login.project, "scripts")
    shutil.copytree(SCRIPTS / "bin", os.path.join(project, "bin"))
    for path in (*SCRIPTS.glob("*.py"), *SCRIPTS.glob("*/*.slurm")):
        shutil.copy(path, project)
    login.environ["PATH"] = os.path.join(project, "bin") + os.pathsep + login.environ["PATH"]
    return project


def said(directory: str) -> list[str]:
    """What ranks said of themselves, in any file but the agent's program, which no rank writes; sorted."""
    found: list[str] = []
    for top, _, names in os.walk(directory):
        for path in filter(os.path.isfile, (os.path.join(top, name) for name in names if name != "agent.pyz")):
            with open(path, errors="replace") as file:
                found += RANK.findall(file.read())
    return sorted(OWN.sub("OWN", line) for line in found)


def by_sbatch(login: Login, project: str, name: str) -> tuple[int, list[str]]:
    copy = os.path.join(login.project, "by-sbatch")
    shutil.copytree(project, copy)
    done = subprocess.run(["sbatch", "--wait", name], cwd=copy, env=login.environ, timeout=2 * PATIENCE)
    return done.returncode, said(copy)


def by_worldsize(login: Login, project: str, name: str) -> tuple[int, list[str]]:
    done = login("run", "-q", name, cwd=project, timeout=2 * PATIENCE)
    found = re.search("^(?:run|array) ([0-9a-z-]+)", done.err, re.MULTILINE)
    assert found, done
    return done.code, said(os.path.join(login.home, "runs", found[1]))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [parameter(path) for path in sorted(SCRIPTS.glob("*/*.slurm"))])
def test_what_sbatch_completes(login: Login, project: str, name: str) -> None:
    expected = by_sbatch(login, project, name)
    assert expected[1], "the ranks say who they are"
    assert by_worldsize(login, project, name) == expected
    if name not in ALWAYS:
        return  # that both are the same job is tested without a cluster
    text = login("import", name, cwd=project).out
    with open(os.path.join(project, "job.yml"), "w") as file:
        file.write(text)
    assert by_worldsize(login, project, "job.yml") == expected
