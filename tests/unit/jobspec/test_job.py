"""The values of a job: frozen, cheap, and honest about what only a service can do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import AssetTypes, Input, Job, Limits, Output, Resources, command_text
from worldsize.jobspec.keys.job import ASSET_TYPES, INPUT, JOB, LIMITS, OUTPUT, RESOURCES
from worldsize.plan.rank_variables import CONVENTIONS


def test_a_job_cannot_be_changed() -> None:
    job = Job(command="echo")
    with pytest.raises(AttributeError):
        job.command = "rm"  # type: ignore[misc]
    assert job._replace(command="true").command == "true"
    assert job.command == "echo"


def test_reading_a_job_on_the_hot_path_imports_neither_yaml_nor_toml_nor_a_schema_library() -> None:
    code = (
        "import sys, worldsize.jobspec.job, worldsize.jobspec.overrides, worldsize.jobspec.dump, "
        "worldsize.jobspec.config.load, "
        "worldsize.jobspec.expressions as e\n"
        "job = worldsize.jobspec.overrides.with_world(worldsize.jobspec.job.Job(argv=('true',)), '1x2')\n"
        "worldsize.jobspec.dump.dump_job(job)\n"
        "variables = {'HOME': '/nonexistent', 'WORLDSIZE_SITE_CONFIG': '/nonexistent'}\n"
        "worldsize.jobspec.config.load.load_config('/', variables)\n"
        "e.resolve_expressions('true', {}, {})\n"
        "heavy = {'yaml', 'msgspec', 'tomllib', 'tomli', 'difflib', 'dataclasses', 'inspect', 'pathlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], env=_path(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def _path() -> dict[str, str]:
    import worldsize.errors

    return {"PYTHONPATH": worldsize.errors.__file__.rpartition("/worldsize/")[0]}


def test_every_field_has_a_key_and_every_key_a_field() -> None:
    assert set(Job._fields) - {"source", "batch_source"} == set(JOB) - {"$schema"}
    for fields, keys in ((Resources, RESOURCES), (Limits, LIMITS), (Input, INPUT), (Output, OUTPUT)):
        assert set(fields._fields) == set(keys)
    for name, kind in DISTRIBUTIONS.items():
        assert set(kind._fields) - {"type"} == set(kind.keys())
        assert kind().type == name
    assert {value for name, value in vars(AssetTypes).items() if name.isupper()} == set(ASSET_TYPES)
    assert JOB["conventions"].choices == CONVENTIONS


def test_distributions_take_keywords_and_tell_their_type() -> None:
    assert PyTorchDistribution(process_count_per_instance=2).type == "pytorch"
    assert PyTorchDistribution(2) != PlainDistribution(2)


def test_the_words_of_a_command_line_are_shown_so_that_a_shell_would_read_the_same() -> None:
    assert command_text(("python", "a b.py", "$HOME", "it's")) == "python 'a b.py' '$HOME' 'it'\"'\"'s'"
