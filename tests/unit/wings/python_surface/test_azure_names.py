"""Import lines of Azure's samples with the package's name changed, and what the imported names do."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import worldsize
import worldsize.constants
import worldsize.entities
from worldsize.errors import JobError, UsageError
from worldsize.jobspec.job import Limits, Resources
from worldsize.wings.python_surface.command_job import command
from worldsize.wings.python_surface.entities import (
    BuildContext,
    CommandJobLimits,
    Environment,
    JobResourceConfiguration,
    JupyterLabJobService,
    ManagedIdentityConfiguration,
    QueueSettings,
    SshJobService,
    TensorBoardJobService,
    UserIdentityConfiguration,
    VsCodeJobService,
)

IMPORTS = """\
from azure.ai.ml import command
from azure.ai.ml.entities import Data
from azure.ai.ml import Input
from azure.ai.ml import Output
from azure.ai.ml.constants import AssetTypes
from azure.ai.ml import MLClient, load_job
from azure.ai.ml import MpiDistribution, PyTorchDistribution, RayDistribution, TensorFlowDistribution
from azure.ai.ml.entities import AmlCompute, BuildContext, CommandJob, Environment, ResourceConfiguration
from azure.ai.ml.entities import JobResourceConfiguration, CommandJobLimits, QueueSettings, JobService
from azure.ai.ml.entities import JupyterLabJobService, SshJobService, TensorBoardJobService, VsCodeJobService
from azure.ai.ml.entities import UserIdentityConfiguration, ManagedIdentityConfiguration, AmlTokenConfiguration
from azure.ai.ml.entities import AzureBlobDatastore, ComputeInstance, Model, Workspace
from azure.ai.ml.constants import InputOutputModes, DistributionType
from azure.ai.ml import Input, command, Output
"""


@pytest.mark.parametrize("line", IMPORTS.splitlines())
def test_import_lines_of_samples(line: str) -> None:
    exec(line.replace("azure.ai.ml", "worldsize"), {})


@pytest.mark.parametrize("module", [worldsize, worldsize.entities, worldsize.constants])
def test_every_name_is_there_and_no_other(module: Any) -> None:
    assert all(getattr(module, name) is not None for name in dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        module.Nothing


@pytest.mark.heavy
def test_importing_them_loads_nothing_else() -> None:
    program = (
        "import sys, worldsize\nbefore = set(sys.modules)\n"
        "import worldsize.entities, worldsize.constants\nprint(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["worldsize.constants", "worldsize.entities"]


def test_objects_say_what_mappings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    objects = command(
        command="x",
        environment=Environment(name="e", version="2", image="docker://alpine", conda_file="conda.yml"),
        resources=JobResourceConfiguration(instance_count=2, shm_size="1g"),
        limits=CommandJobLimits(timeout=5),
        queue_settings=QueueSettings(job_tier="Spot"),
        identity=ManagedIdentityConfiguration(client_id="c"),
        services={
            "ssh": SshJobService(ssh_public_keys="k", nodes="all"),
            "board": TensorBoardJobService(log_dir="outputs/logs"),
            "lab": JupyterLabJobService(port=8888),
            "code": VsCodeJobService(),
        },
    )
    mappings = command(
        command="x",
        environment={"name": "e", "version": "2", "image": "docker://alpine", "conda_file": "conda.yml"},
        resources={"instance_count": 2, "shm_size": "1g"},
        limits={"timeout": 5},
        queue_settings={"job_tier": "spot"},
        identity={"type": "managed", "client_id": "c"},
        services={
            "ssh": {"type": "ssh", "ssh_public_keys": "k", "nodes": "all"},
            "board": {"type": "tensor_board", "log_dir": "outputs/logs"},
            "lab": {"type": "jupyter_lab", "port": 8888},
            "code": {"type": "vs_code"},
        },
    )
    assert objects.build() == mappings.build()


def test_a_build_context_and_an_identity_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build = BuildContext(path="docker", dockerfile_path="Dockerfile")
    job = command(command="x", environment=Environment(build=build), identity=UserIdentityConfiguration()).build()[0]
    assert job.environment == {"build": {"path": str(tmp_path / "docker"), "dockerfile_path": "Dockerfile"}}
    assert job.identity == {"type": "user_identity"}


def test_sections_and_short_names_are_one_value() -> None:
    job = command(command="x", instance_count=2)
    assert job.resources == JobResourceConfiguration(instance_count=2)
    job.resources.instance_count = 3
    assert job.instance_count == 3
    job.shm_size = "1g"
    job.set_resources(max_instance_count=4)
    job.set_limits(timeout=60)
    job.set_queue_settings(priority="high")
    built = copy.deepcopy(job).build()[0]
    assert built.resources == Resources(3, shm_size="1g", max_instance_count=4)
    assert (built.limits, built.queue_settings) == (Limits(60), {"priority": "high"})
    job.resources = {"instance_count": 5}
    job.instance_type = "large"
    assert job.resources == {"instance_count": 5, "instance_type": "large"}
    assert job.timeout == 60 and job.locations is None


def test_a_section_that_two_jobs_share_is_changed_by_neither() -> None:
    shared = JobResourceConfiguration(instance_count=2)
    first = command(command="x", resources=shared, shm_size="1g")
    assert (first.instance_count, shared.shm_size) == (2, None)


def test_a_misspelt_key_of_an_object_is_told_by_its_place() -> None:
    job = command(command="x", instance_count=2)
    job.resources.instance_cuont = 3
    with pytest.raises(JobError, match=r"resources\.instance_cuont: is not a key of resources"):
        job.build()
    with pytest.raises(JobError, match=r"environment\.conda_fille: is not a key"):
        command(command="x", environment=Environment(conda_fille="x")).build()


def test_what_an_environment_shows_holds_no_variable() -> None:
    assert "s3cret" not in repr(Environment(pip=["x"], variables={"TOKEN": "s3cret"}))


@pytest.mark.parametrize(
    ("name", "hint"), [("AmlCompute", "worldsize.toml"), ("Model", "run.outputs"), ("Workspace", "WORLDSIZE_HOME")]
)
def test_what_there_is_nothing_of_says_so_when_it_is_made(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="worldsize has no " + name) as caught:
        getattr(worldsize.entities, name)(name="gpu-cluster", size="Standard_NC6")
    assert hint in str(caught.value.hint)
