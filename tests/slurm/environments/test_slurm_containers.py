"""Images on a real Slurm, with stand-ins for what runs them: Apptainer on the nodes, and Pyxis in srun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from runtimes import APPTAINER, PYXIS, install
from slurm.login import Login


@pytest.fixture
def image(login: Login) -> str:
    return login.write("image.sif", "an image")


def with_program(login: Login, name: str, text: str) -> None:
    folder = install(os.path.join(login.project, "bin"), name, text)
    login.environ["PATH"] = folder + os.pathsep + login.environ["PATH"]


def test_apptainer_on_every_node(login: Login, image: str) -> None:
    with_program(login, "apptainer", APPTAINER)
    job = login.job("echo $APPTAINER_CONTAINER $SLURM_JOB_ID", "2x2", environment={"image": image})
    result = login("run", job)
    assert result.code == 0, (result, login.read(login.latest(), "batch.log"))
    assert login.ok("logs").lines == ["×4: %s %s" % (image, login.native(login.latest()))]


def test_pyxis_is_found_in_sruns_own_words(login: Login) -> None:
    with_program(login, "srun", PYXIS)
    job = login.job("echo $PYXIS_IMAGE", "2x1", environment={"image": "nvcr.io/nvidia/pytorch:24.01"})
    preview = login.ok("run", job, "--dry-run").out
    assert "    '--container-image=nvcr.io#nvidia/pytorch:24.01' \\\n    --container-mounts=" in preview
    result = login("run", job)
    assert result.code == 0, (result, login.read(login.latest(), "batch.log"))
    assert login.ok("logs").lines == ["×2: nvcr.io#nvidia/pytorch:24.01"] and "the nodes fetch" in result.err


def test_passwords_for_pyxis(login: Login) -> None:
    """Found by review: without its scheme an address was not known for one, and options of srun were shown as they
    are."""
    with_program(login, "srun", PYXIS)
    refused = login.refused("run", login.job("true", environment={"image": "docker://anna:hunter2@h.org/x:1"}))
    assert "enroot takes no password" in refused.err and "hunter2" not in refused.err
    login.write(
        "worldsize.toml",
        'default_compute = "slurm"\n[compute.slurm]\ntype = "slurm"\n'
        'container_options = ["--comment=api_key=hunter2"]\n',
    )
    result = login("run", login.job("true", environment={"image": "h.org/x:1"}, share="group"))
    assert result.code == 0, result
    root = os.path.realpath(login.path(login.latest()))
    assert "--comment=api_key=***" in login.read(login.latest(), "submission.txt")
    assert not [path for path in Path(root).rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_without_either_it_is_refused(login: Login, image: str) -> None:
    refused = login.refused("run", login.job("true", environment={"image": image}))
    assert "needs Apptainer or Singularity, or Pyxis on Slurm: none is here" in refused.err
