"""Environments that jobs register are those that Azure's own client registers for the same file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azureml_double.double import Double, names_resolved
from sdk import Told
from workspace_client import WorkspaceClient

from worldsize.errors import JobError
from worldsize.jobspec.reading.job_file import load_job
from worldsize.wings.azure.storage.environment_asset import register_environment

HEAD = "$schema: x\ntype: command\ncommand: 'true'\ncompute: azureml:small\nenvironment:"
FILES = {
    "named": " azureml:known:7",
    "latest": " azureml:known@latest",
    "curated": " azureml:AzureML-tensorflow@latest",
    "registry": " azureml://registries/azureml/environments/any/versions/1",
    "registry label": " azureml://registries/azureml/environments/any/labels/latest",
    "image": "\n  image: ubuntu:22.04",
    "labels": "\n  image: ubuntu:24.04\n  description: some\n  tags: {a: b}\n  os_type: linux",
    "conda file": "\n  image: python:3.11\n  conda_file: ./conda.yml",
    "inline": "\n  image: python:3.12\n  conda_file:\n    name: it\n    channels: [conda-forge, defaults]\n"
    "    dependencies: [python=3.12, pip=24.0, {pip: ['torch>=2', \"numpy; python_version>'3'\"]}]\n"
    "    variables: {A: 1, B: 'on', C: 010}",
    "no channels": "\n  image: python:3.12\n  conda_file: {dependencies: [python]}",
    "file": " file:./mine.yml",
    "named inline": "\n  name: mine\n  version: 3\n  image: debian:13",
}
CONDA = "# with words\nname: ü\ndependencies:\n- python=3.10\n- pip:\n  - torch\n  - --extra-index-url https://a.b/c\n"


@pytest.fixture
def client(double: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceClient]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", double.ca_file)
    for version in ("6", "7"):
        double.ask("PUT", "/environments/known/versions/" + version, {"properties": {"image": "any"}})
    with names_resolved():
        yield WorkspaceClient(double)


def registered(double: Double, identity: str) -> dict[str, Any]:
    """The properties of a version by its id, and nothing that is empty."""
    properties = double.ask("GET", identity.removeprefix(double.scope))["properties"]
    return {key: value for key, value in properties.items() if value not in (None, {}, "")}


def of_file(client: WorkspaceClient, path: Path, text: str) -> str:
    path.write_text(HEAD + text + "\n")
    return register_environment(client, load_job(str(path)).job)


def test_names_and_bodies_are_those_of_azures_client(
    double: Double, client: WorkspaceClient, sdk: Callable[[str], Told], tmp_path: Path
) -> None:
    (tmp_path / "conda.yml").write_text(CONDA)
    (tmp_path / "mine.yml").write_text("image: fedora:41\nconda_file: conda.yml\n")
    paths = {name: tmp_path / ("%s.yml" % name) for name in FILES}
    ours = {name: of_file(client, paths[name], text) for name, text in FILES.items()}
    bodies = {name: registered(double, each) for name, each in ours.items() if each.startswith("/")}
    told = sdk(
        """
from azure.ai.ml import load_job
for name, path in %r.items():
    tell(name, client.jobs._orchestrators.get_asset_arm_id(load_job(path).environment, "environments"))
"""
        % {name: str(path) for name, path in paths.items()}
    )
    assert ours == told.values
    assert bodies == {name: registered(double, each) for name, each in ours.items() if each.startswith("/")}
    assert len(set(ours.values())) == len(FILES) - 1  # known:7 is the latest of its name


@pytest.mark.exhaustive
def test_an_environment_is_registered_once(double: Double, client: WorkspaceClient, tmp_path: Path) -> None:
    before = len(double.requests())
    text = "\n  image: once:1\n  conda_file: {dependencies: [python]}"
    first = of_file(client, tmp_path / "one.yml", text)
    assert first == of_file(client, tmp_path / "other.yml", text)
    assert len([each for each in double.requests()[before:] if each.startswith("PUT")]) == 1


@pytest.mark.exhaustive
def test_a_folder_with_a_dockerfile_is_uploaded_once(double: Double, client: WorkspaceClient, tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile").write_text("FROM ubuntu\nRUN echo %s\n" % tmp_path)
    text = "\n  build: {path: docker, dockerfile_path: Dockerfile}"
    found = of_file(client, tmp_path / "job.yml", text)
    build = registered(double, found)["build"]
    place = build["contextUri"].partition("azureml-blobstore-double/")[2]
    with open(double.blob("azureml-blobstore-double", place + "Dockerfile"), encoding="utf-8") as file:
        assert file.read() == (tmp_path / "docker" / "Dockerfile").read_text()
    assert build["dockerfilePath"] == "Dockerfile"
    before = len(double.requests())
    assert of_file(client, tmp_path / "job.yml", text) == found
    assert not [each for each in double.requests()[before:] if each.startswith("PUT")]


@pytest.mark.exhaustive
def test_packages_of_ours_are_registered_as_a_conda_file(
    double: Double, client: WorkspaceClient, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\n")
    found = registered(double, of_file(client, tmp_path / "job.yml", " requirements.txt"))
    assert found["condaFile"] == "channels:\n- conda-forge\ndependencies:\n- python\n- pip\n- pip:\n  - torch==2.13.0\n"
    assert found["image"].startswith("mcr.microsoft.com/azureml/")
    found = registered(double, of_file(client, tmp_path / "job.yml", "\n  python: '3.12'\n  conda: [numpy]"))
    assert "- python=3.12\n- numpy\n" in found["condaFile"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" my-env", "my-env"),
        ("\n  python: /opt/venv", "/opt/venv"),
        ("\n  image: x\n  pip: [./tree]", "path on this machine"),
        ("\n  image: x\n  conda_file: local.yml", "local.whl"),
        ("\n  image: x\n  conda_file: missing.yml", "missing.yml"),
        ("\n  image: x\n  conda_file: list.yml", "is not a conda file"),
        ("\n  image: x\n  conda_file: mixed.yml", "has build next to dependencies"),
        (" wrong.yml", "imagee"),
        ("\n  image: x\n  build: {path: .}", "image or a build"),
        (" azureml:none:1", "none:1"),
        (" azureml:none@latest", "none@latest"),
        (" azureml:known@newest", "VERSION"),
        (" azureml:known", "VERSION"),
    ],
)
def test_what_cannot_be_there_is_refused_with_a_sentence(
    client: WorkspaceClient, tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / "local.yml").write_text("dependencies: [{pip: [local.whl]}]\n")
    (tmp_path / "list.yml").write_text("[1]\n")
    (tmp_path / "mixed.yml").write_text("dependencies: [python]\nbuild: [make]\n")
    (tmp_path / "wrong.yml").write_text("imagee: x\n")
    with pytest.raises(JobError) as refused:
        of_file(client, tmp_path / "job.yml", text)
    assert word in str(refused.value)
