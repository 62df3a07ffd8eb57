"""Whatever is fed to the readers, they answer, or refuse with an error of ours; and what is written reads back.

The number of examples of each test is that of selection.py.
"""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import yaml
from distributions import parse_distribution
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz, jobs, names, objects, only_ours, texts, trees, worded_jobs

from worldsize.errors import ConfigError, JobError
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.expressions import input_text, resolve_expressions
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys import job as keys
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.reading.set_option import apply_overrides

KEYS = sorted({*keys.JOB, *keys.INPUT, *keys.RESOURCES, "inputs.a", "a", "x y", "1", "null", "*a", "<<"})
SIGNS = list(":-[]{},'\"|>#?%0~@\ufeff\x85\t")
WORDS = [
    *KEYS,
    *SIGNS,
    ": ",
    "- ",
    "\n",
    "\n  ",
    "&a ",
    "*a",
    "!!int ",
    "!x ",
    "---",
    "...",
    "-1",
    "1e9",
    ".nan",
    "0b_",
]
soup = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=40).map("".join)


@fuzz
@given(soup)
def test_any_text_as_a_job_file(text: str) -> None:
    only_ours(lambda: parse_job(text, "job.yml"))


@fuzz
@given(st.binary(max_size=60) | soup.map(lambda text: text.encode("utf-16", "ignore")))
def test_any_bytes_as_a_job_file(data: bytes) -> None:
    only_ours(lambda: parse_job(data, "job.yml"))


@fuzz
@given(st.dictionaries(st.sampled_from(KEYS), trees, max_size=5), trees)
def test_any_values_of_known_keys(tree: dict[str, Any], value: Any) -> None:
    text = yaml.safe_dump({**tree, "command": value})
    only_ours(lambda: parse_job(text, "job.yml"))


@jobs
def test_a_job_reads_back_as_it_was_written(job: Job) -> None:
    text = dump_job(job)
    loaded = parse_job(text, "job.yml")
    assert loaded.job == job
    assert dump_job(loaded.job) == text
    infinite = any(value in (math.inf, -math.inf) for value in job.inputs.values())
    assert bool(loaded.warnings) == infinite, loaded.warnings


@fuzz
@given(worded_jobs, st.lists(st.builds("{}={}".format, st.sampled_from(KEYS) | soup, soup | texts), max_size=3))
def test_any_overrides(job: Job, words: list[str]) -> None:
    only_ours(lambda: apply_overrides(job, words))


@jobs
def test_no_override_changes_nothing(job: Job) -> None:
    assert apply_overrides(job, []) == job


@fuzz
@given(worded_jobs, names, texts)
def test_an_override_of_a_variable_sets_that_variable(job: Job, name: str, text: str) -> None:
    words = ["environment_variables.%s=%s" % (name, text)]
    if text[:1] in ("'", '"', "[", "{"):
        only_ours(lambda: apply_overrides(job, words))  # it is YAML: "[]" is a list, and refused
        return
    changed = apply_overrides(job, words)
    assert changed.environment_variables[name] == text
    assert changed._replace(environment_variables=job.environment_variables) == job


@fuzz
@given(worded_jobs, st.text("0123456789xX×- .", max_size=8) | st.text(max_size=5))
def test_any_world(job: Job, world: str) -> None:
    only_ours(lambda: with_world(job, world))


@fuzz
@given(st.lists(st.sampled_from(["${{", "}}", "inputs.", "outputs.", "a", "b", " ", "$[[", "]]", "$", "{", "x"])))
def test_any_expression(parts: list[str]) -> None:
    only_ours(lambda: resolve_expressions("".join(parts), {"a": "1"}, {"b": "2"}, "job.yml:1", ["x"]))


@fuzz
@given(texts, texts)
def test_a_value_is_put_in_once_and_exactly(before: str, value: str) -> None:
    plain = before.replace("$", "")
    assert resolve_expressions(plain + "${{inputs.a}}", {"a": value}, {}, None) == plain + value
    assert input_text(value) == value


@fuzz
@given(objects)
def test_any_distribution(value: Any) -> None:
    only_ours(lambda: parse_distribution(value, "here", []))
    only_ours(lambda: parse_distribution({"type": "pytorch", "process_count_per_instance": value}, "here", []))


TOML_SIGNS = ["home", "default_compute", "compute", "lab", "local", "type", '"slurm"', *list(".=[]{},\"'1#")]
TOML_LINES = ["[compute.lab]\n", "[compute.local]\n", 'type = "slurm"\n', "grace = ", "runs_dir = ", "python = "]
TOML_WORDS = [*TOML_SIGNS, *TOML_LINES, " = ", "\n", '"""', "2024-01-01", "[[", "1e999", "nan", "true", "\\u0000"]
toml_soup = st.lists(st.sampled_from(TOML_WORDS) | st.text(max_size=3), max_size=30).map("".join)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("project"))


@fuzz
@given(toml_soup.map(lambda text: text.encode("utf-8", "surrogateescape")) | st.binary(max_size=40))
def test_any_configuration(project: str, data: bytes) -> None:
    with open(os.path.join(project, "worldsize.toml"), "wb") as file:
        file.write(data)
    environ = {"HOME": project, "WORLDSIZE_SITE_CONFIG": "/nonexistent"}
    try:
        config = load_config(project, environ)
    except (ConfigError, JobError) as error:
        assert isinstance(error, ConfigError)
        assert project in (error.where or "")
    else:
        assert config.computes["local"].type == "local"
        only_ours(lambda: config.compute())
