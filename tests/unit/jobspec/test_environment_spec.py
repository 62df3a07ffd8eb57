"""`environment:` as it is read: names, files, Azure's mapping and ours, and what is refused."""

from __future__ import annotations

import os
from typing import Any

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.environment import (
    BuildStep,
    EnvironmentSpec,
    FetchStep,
    is_azure_name,
    is_path,
    is_version,
    spec_of,
)
from worldsize.jobspec.reading.job_file import parse_job

SUM = "0123456789abcdef" * 4


def environment(text: str) -> Any:
    return parse_job("command: 'true'\nenvironment: " + text, "/p/job.yml").job.environment


def spec(text: str) -> EnvironmentSpec:
    return spec_of(environment(text))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("requirements.txt", "/p/requirements.txt"),
        ("../env/environment.yml", "/env/environment.yml"),
        ("file:env.yml", "file:/p/env.yml"),
        ("/opt/envs/torch", "/opt/envs/torch"),
        ("./venv", "/p/venv"),
        ("torch", "torch"),
        ("azureml:a.txt:1", "azureml:a.txt:1"),
        ("azureml://registries/azureml/environments/a/labels/latest", None),
        ("AzureML-acpt@latest", "AzureML-acpt@latest"),
    ],
)
def test_paths_are_made_absolute_and_names_are_left_alone(text: str, read: str | None) -> None:
    assert environment(text) == (read or text)
    assert environment(str(environment(text))) == (read or text)


@pytest.mark.parametrize("name", ["azureml:a:1", "AzureML-x", "azureml://r/x", "env@latest", "env:3"])
def test_names_that_only_azure_has(name: str) -> None:
    assert is_azure_name(name)
    assert not is_path(name)


@pytest.mark.parametrize("name", ["torch", "my_env-2", "requirements.txt", "/a:b/c", "./x@y"])
def test_names_that_are_ours(name: str) -> None:
    assert not is_azure_name(name)


@pytest.mark.parametrize(
    ("text", "version"),
    [("3.11", True), (">=3.10,<3.13", True), ("3.11.*", True), ("~=3.9", True), ("3", True), ("python3.11", True),
     ("torch", False), ("/usr/bin/python3", False), ("3d-env", False)],
)  # fmt: skip
def test_versions_and_names_of_pythons(text: str, version: bool) -> None:
    assert is_version(text) is version
    read = spec("{python: '%s'}" % text)
    assert (read.version, read.existing_python) == ((text.removeprefix("python"), None) if version else (None, text))


def test_a_number_is_a_version() -> None:
    assert spec("{python: 3.10}").version == "3.10"


def test_azures_inline_conda_file_and_ours_are_the_same_value() -> None:
    azure = spec(
        "{conda_file: {name: n, channels: [conda-forge], dependencies: [python=3.11, pip, {pip: [torch, -r r.txt]}]}}"
    )
    ours = spec("{name: n, channels: [conda-forge], conda: [python=3.11, pip], pip: [torch, -r r.txt]}")
    assert azure == ours
    assert ours.pip == ("torch", "-r /p/r.txt")
    assert ours.needs_build


def test_a_conda_file_by_path() -> None:
    assert spec("{image: x, conda_file: env/conda.yml}") == EnvironmentSpec(file="/p/env/conda.yml", image="x")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("requirements.txt", ("-r /p/requirements.txt",)),
        ("numpy>=1.26", ("numpy>=1.26",)),
        ("./pkg", ("/p/pkg",)),
        ("$PREFIX/opt/horovod-0.28.1", ("$PREFIX/opt/horovod-0.28.1",)),
        ("[a, ./pkg, '-c limits.txt', '-rmore.txt', '--requirement=m.txt', 'b @ https://h/b.whl', '../x[extra]']",
         ("a", "/p/pkg", "-c /p/limits.txt", "-r /p/more.txt", "--requirement /p/m.txt", "b @ https://h/b.whl",
          "/x[extra]")),
        ("['--index-url https://h/simple', '-f https://h/links']", ("--index-url https://h/simple", "-f https://h/links")),
    ],
)  # fmt: skip
def test_requirements_and_the_paths_in_them(written: str, read: tuple[str, ...]) -> None:
    assert spec("{pip: %s}" % written).pip == read


def test_everything_of_ours() -> None:
    text = """
  python: "3.11"
  modules: [cuda/12.4]
  path: /opt/x/bin
  ld_library_path: [$HOME/nccl/lib, /opt/lib]
  variables: {A: 1, B: $HOME/b}
  virtual_packages: [__cuda=12.4]
  prerequisites: [gcc>=7.2, mpi]
  fetch:
  - {url: https://h/nccl.txz, sha256: %s, to: vendor}
  build:
  - make -C src install
  - {name: horovod, pip: horovod==0.28.1, options: [--no-build-isolation], variables: {HOROVOD_GPU_OPERATIONS: NCCL}}
  build_on: compute
  clobber: warn
"""
    assert spec(text % SUM.upper()) == EnvironmentSpec(
        python="3.11",
        modules=("cuda/12.4",),
        path=("/opt/x/bin",),
        ld_library_path=("$HOME/nccl/lib", "/opt/lib"),
        variables={"A": "1", "B": "$HOME/b"},
        virtual_packages=("__cuda=12.4",),
        prerequisites=("gcc>=7.2", "mpi"),
        fetch=(FetchStep("https://h/nccl.txz", SUM, "/p/vendor"),),
        steps=(
            BuildStep(run="make -C src install"),
            BuildStep(
                pip=("horovod==0.28.1",),
                name="horovod",
                options=("--no-build-isolation",),
                variables={"HOROVOD_GPU_OPERATIONS": "NCCL"},
            ),
        ),
        build_on="compute",
        clobber="warn",
    )


def test_azures_build_is_a_mapping_and_no_step_of_ours() -> None:
    assert environment("{build: {path: docker}}") == {"build": {"path": "/p/docker"}}
    assert spec("{build: {path: docker}}").steps == ()


def test_what_exists_needs_no_building() -> None:
    assert not spec("{python: torch, modules: [cuda], variables: {A: 1}}").needs_build
    assert spec("{python: torch, pip: [a]}").needs_build
    assert spec("{python: '3.11'}").needs_build


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{condaa: [a]}", "did you mean 'conda'"),
        ("{conda: python}", "environment.conda: expected a list"),
        ("{fetch: [{url: https://h/x}]}", "fetch[0].sha256: is missing"),
        ("{fetch: [{url: https://h/x, sha256: abc}]}", "fetch[0].sha256: is not a checksum"),
        ("{fetch: [{sha256: %s}]}" % SUM, "fetch[0].url: is missing"),
        ("{fetch: {url: x}}", "environment.fetch: expected a list"),
        ("{build: [{name: x}]}", "environment.build[0]: is one of"),
        ("{build: [{run: a, pip: b}]}", "environment.build[0]: is one of"),
        ("{build: [{runn: a}]}", "did you mean 'run'"),
        ("{build: [3]}", "environment.build[0]: expected text"),
        ("{build_on: gpu}", "build_on"),
        ("{conda_file: {dependencies: python}}", "conda_file: dependencies: expected a list"),
        ("{conda_file: {dependencies: [{conda: [a]}]}}", "conda_file: dependencies: expected a package"),
        ("''", "is empty"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        environment(text)
    assert said in str(caught.value)
    assert "job.yml:2" in str(caught.value)


def test_directories_start_at_the_job_file() -> None:
    read = spec("{python: ../venv, path: bin, ld_library_path: [lib, $HOME/lib, /opt/lib]}")
    assert read == EnvironmentSpec(
        python="/venv", path=("/p/bin",), ld_library_path=("/p/lib", "$HOME/lib", "/opt/lib")
    )
    assert spec("{python: python3.12}").version == "3.12"


def test_home_in_paths() -> None:
    assert spec("{fetch: [{url: x.txz, sha256: %s, to: '~'}]}" % SUM).fetch[0] == FetchStep(
        "/p/x.txz", SUM, os.path.expanduser("~")
    )
