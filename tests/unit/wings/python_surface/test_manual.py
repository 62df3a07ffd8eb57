"""What `help(worldsize)` shows: signatures that say what is taken, a docstring for each name, short texts of values."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import pytest

import worldsize
import worldsize.constants
import worldsize.entities
from worldsize.jobspec.reading.job_file import load_job
from worldsize.wings.python_surface.command_job import CommandJob, attributes

PUBLIC = {name: getattr(worldsize, name) for name in worldsize.__all__ if name != "__version__"}
MORE = {"command", "CommandJob", "MLClient", "log", "ManagedIdentityConfiguration"}
"""What takes keywords that its signature does not list: refused ones, Azure's, or values of the user's own."""


def public_parts(kind: type) -> list[tuple[str, Any]]:
    """The methods and properties of a class of worldsize's, its own and those of its bases."""
    found = inspect.classify_class_attrs(kind)
    return [
        (each.name, each.object)
        for each in found
        if not each.name.startswith("_")
        and each.defining_class.__module__.startswith("worldsize")
        and each.kind in ("method", "property", "static method", "class method")
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_has_a_docstring_and_a_signature(name: str) -> None:
    value = PUBLIC[name]
    text = inspect.getdoc(value)
    assert text and not text.startswith(name + "("), "a named tuple's own words"
    kinds = {each.kind for each in inspect.signature(value).parameters.values()}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds or name in ("log", "shard")
    assert inspect.Parameter.VAR_KEYWORD not in kinds or name in MORE


@pytest.mark.parametrize("name", ["Run", "RunArray", "CommandJob", "MLClient", "WorldsizeError", "RunFailed"])
def test_each_part_of_a_class_has_a_docstring(name: str) -> None:
    kind = PUBLIC[name]
    assert [part for part, _ in public_parts(kind) if not inspect.getdoc(getattr(kind, part))] == []


@pytest.mark.parametrize("module", [worldsize.entities, worldsize.constants])
def test_azures_other_names_have_docstrings(module: Any) -> None:
    assert [name for name in dir(module) if not inspect.getdoc(getattr(module, name))] == []


def test_help_is_a_manual() -> None:
    text = " ".join(pydoc.plain(pydoc.render_doc(worldsize)).split()).replace("( ", "(")  # Python 3.13 breaks lines
    assert "Submit a job" in text and "class Run(" in text and "open_run(run: 'str | None' = None" in text
    assert "class Input(" in text and "path: 'str | None' = None" in text


def test_a_job_in_the_making_takes_what_command_takes() -> None:
    keywords = set(inspect.signature(worldsize.command).parameters) - {"unknown"}
    assert keywords == set(attributes())
    declared = (Path(inspect.getfile(CommandJob)).read_text().partition("class CommandJob")[2]).partition(
        "def __init__"
    )[0]
    assert {name for name in keywords if "\n        %s: " % name in declared} == keywords


def test_values_are_short_and_hold_no_secret(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(
        "command: python train.py --token=s3cretvalue --data ${{inputs.data}} and many more words behind it\n"
        "environment_variables: {TOKEN: s3cretvalue}\n"
        "inputs: {data: {path: 'https://user:s3cretvalue@host/data?sig=s3cretvalue'}}\n"
    )
    job = load_job(str(tmp_path / "job.yml")).job
    built = worldsize.command(command=job.command, inputs=job.inputs, environment_variables={"TOKEN": "s3cretvalue"})
    for value in (job, built, job.inputs["data"], worldsize.Data(name="x", path="data"), worldsize.Output()):
        assert len(repr(value)) < 80 and "s3cret" not in repr(value) and "\n" not in repr(value)
    assert repr(worldsize.Input(path="data", optional=True)) == "Input(path='data', optional=True)"
