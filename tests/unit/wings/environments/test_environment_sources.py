"""What files say of an environment, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import InProcess

from worldsize.errors import JobError, NotFound, UsageError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.wings.environments.sources import with_file_contents


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_conda_file_with_keys_of_ours(tmp_path: Path) -> None:
    text = """\
name: mine
channels: [conda-forge, defaults]
prefix: /ignored
dependencies:
- python=3.11
- pip:
  - torch
  - -r more.txt
  - ./pkg
variables: {A: 1}
modules: [cuda]
"""
    path = write(tmp_path / "environment.yml", text)
    assert with_file_contents(EnvironmentSpec(file=path, pip=("extra",))) == EnvironmentSpec(
        name="mine",
        channels=("conda-forge", "defaults"),
        conda=("python=3.11",),
        pip=("torch", "-r %s/more.txt" % tmp_path, "%s/pkg" % tmp_path, "extra"),
        variables={"A": "1"},
        modules=("cuda",),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dependencis: [a]\n", "did you mean 'dependencies'"),
        ("dependencies: python\n", "expected a list"),
        ("dependencies: [{piip: [a]}]\n", "expected a package or `pip:`"),
        ("dependencies: [a\n", "environment.yml:2"),
        ("- a\n", "expected a mapping"),
        ("colour: blue\n", "does not describe an environment"),
    ],
)
def test_what_is_wrong_with_a_conda_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises((JobError, UsageError)) as caught:
        with_file_contents(EnvironmentSpec(file=write(tmp_path / "environment.yml", text)))
    assert said in str(caught.value)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "requirements.txt", "a\n")
    assert with_file_contents(EnvironmentSpec(file=path)).pip == ("-r " + path,)
    with pytest.raises(NotFound):
        with_file_contents(EnvironmentSpec(file=str(tmp_path / "nowhere.txt")))
    with pytest.raises(UsageError, match="is a directory"):
        with_file_contents(EnvironmentSpec(file=str(tmp_path)))


def test_files_that_name_themselves(tmp_path: Path) -> None:
    """Found by review: a traceback."""
    path = write(tmp_path / "a.yml", "file: b.yml\nname: a\n")
    write(tmp_path / "b.yml", "file: a.yml\nname: b\n")
    with pytest.raises(UsageError, match="files include each other"):
        with_file_contents(EnvironmentSpec(file=path))


def test_a_job_whose_file_is_not_there_is_refused_with_its_line(tmp_path: Path) -> None:
    cli = InProcess(str(tmp_path))
    cli.write("job.yml", "command: echo $X\nenvironment: file:./env.yml\n")
    done = cli("run", "job.yml")
    assert done.code == 2 and "job.yml:2: environment: no such file" in done.err and "env.yml" in done.err, done
