"""A job written as text reads back as the same job, and people can read it too."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.dump import dump_job, job_tree
from worldsize.jobspec.job import Input, Job, Limits, Output, Resources, command_text
from worldsize.jobspec.reading.job_file import parse_job

TEXTS = [
    "plain words",
    "yes",
    "No",
    "null",
    "~",
    "",
    " ",
    "010",
    "1e3",
    "1:30",
    ".inf",
    "2024-01-01",
    "=",
    "<<",
    "- a",
    "a: b",
    "a # b",
    "'quoted'",
    '"quoted"',
    "back\\slash",
    "tab\there",
    "two\nlines",
    "ends\n",
    "ends twice\n\n",
    "\nbegins",
    " indented\nblock",
    "block\n  indented\n\nend",
    "trailing \nblank",
    "line\rreturn",
    "\x1b[31mred\x7f\x85",
    "\u2028\u2029\ufeff",
    "ünï-€ 你好 😀",
    "undecodable \udcff",
    "%x",
    "@x",
    "`x`",
    "!x",
    "&x *x",
    "{a: b}",
    "[a]",
    "---",
    "...\n---\n",
    "${{inputs.x}} $HOME",
    "x" * 3000,
    "word " * 600,
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back(text: str) -> None:
    job = Job(
        command="x " + text,
        description=text,
        environment_variables={"A": text},
        inputs={"a": text},
        resources=Resources(properties={text: [text, {"b": text}], "list": [[text], [], {}]}),
        hpcpack={"job_properties": {"A": text}},
        source="job.yml",
    )
    assert parse_job(dump_job(job), "job.yml").job == job


@pytest.mark.parametrize(
    "value", [0, -1, 10**300, True, False, 0.1, 1e16, 1e-5, -1.5e300, 1000.0, 5e-324, math.inf, -math.inf]
)
def test_any_number_comes_back_with_its_type(value: Any) -> None:
    job = Job(command="x", inputs={"a": value}, resources=Resources(properties={"a": value}), source="job.yml")
    back = parse_job(dump_job(job), "job.yml").job
    assert back == job
    assert type(back.inputs["a"]) is type(value)


def test_a_number_that_is_none_comes_back_as_one() -> None:
    back = parse_job(dump_job(Job(command="x", inputs={"a": math.nan})), "job.yml").job.inputs["a"]
    assert isinstance(back, float) and math.isnan(back)


@pytest.mark.parametrize(
    "distribution",
    [
        None,
        PlainDistribution(4),
        PyTorchDistribution(),
        PyTorchDistribution(2, "torchrun"),
        PyTorchDistribution(3, "torchrun", "1:2", 4),
    ],
)
def test_distributions_come_back(distribution: Any) -> None:
    job = Job(command="x", distribution=distribution, source="job.yml")
    assert parse_job(dump_job(job), "job.yml").job == job


def test_exact_words_come_back() -> None:
    argv = ("python", "a b.py", "", "$(x)", "new\nline", "\udcff", "😀")
    job = Job(argv=argv, command=command_text(argv), source="job.yml")
    assert parse_job(dump_job(job), "job.yml").job == job


def test_the_text_is_what_a_person_would_write() -> None:
    job = Job(
        command="cd src\npython train.py --lr ${{inputs.lr}}\n",
        code="/home/me/src",
        distribution=PyTorchDistribution(2),
        resources=Resources(2, docker_args=("--ipc=host",)),
        limits=Limits(60),
        inputs={"lr": 0.1, "data": Input(path="/data")},
        outputs={"model": Output()},
        environment_variables={"RATE": "1.50", "NAME": "two words"},
        source="anything",
    )
    assert dump_job(job) == (
        "command: |\n"
        "  cd src\n"
        "  python train.py --lr ${{inputs.lr}}\n"
        "code: /home/me/src\n"
        "environment_variables:\n"
        '  RATE: "1.50"\n'
        "  NAME: two words\n"
        "distribution:\n"
        "  type: pytorch\n"
        "  process_count_per_instance: 2\n"
        "resources:\n"
        "  instance_count: 2\n"
        "  docker_args:\n"
        '    - "--ipc=host"\n'
        "limits:\n"
        "  timeout: 60\n"
        "inputs:\n"
        "  lr: 0.1\n"
        "  data:\n"
        "    type: uri_folder\n"
        "    path: /data\n"
        "outputs:\n"
        "  model:\n"
        "    type: uri_folder\n"
    )


def test_a_yaml_library_reads_the_same_values() -> None:
    properties = {"a": [1, "1", None, [], {}]}
    job = Job(command="x", description="a: b", inputs={"a": 1e-5}, resources=Resources(properties=properties))
    assert yaml.safe_load(dump_job(job)) == job_tree(job)
