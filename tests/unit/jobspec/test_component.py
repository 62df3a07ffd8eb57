"""Azure's command components, read as jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.input_types import input_problems
from worldsize.jobspec.job import Input, InputType, Job
from worldsize.jobspec.reading.job_file import load_job, parse_job
from worldsize.jobspec.reading.matrix import with_matrix
from worldsize.jobspec.reading.set_option import apply_overrides

SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json\n"
HEAD = SCHEMA + "name: a\nenvironment: azureml:e:1\ncommand: echo\n"
TYPED = HEAD + (
    "inputs:\n"
    "  n: {type: integer, min: 1, max: '9'}\n"
    "  rate: {type: number, default: 1}\n"
    "  loss: {type: string, enum: [l1, l2], default: l1}\n"
    "  flag: {type: boolean, default: 'TRUE'}\n"
    "  data: {type: uri_file, mode: ro_mount, description: rows}\n"
    "  note: {type: string, optional: true}\n"
)


def component(text: str) -> Job:
    return parse_job(text, "/jobs/c.yml").job


def refusal(text: str) -> str:
    with pytest.raises(JobError) as caught:
        component(text)
    return str(caught.value)


def problems(job: Job) -> list[tuple[str, str]]:
    return [(key, what) for key, what, _ in input_problems(job)]


def test_declarations_become_types_and_defaults_values() -> None:
    job = component(TYPED)
    assert job.input_types["n"] == InputType("integer", min=1, max=9)
    assert job.input_types["data"] == InputType("uri_file", mode="ro_mount", description="rows")
    assert job.inputs == {"rate": 1.0, "loss": "l1", "flag": True, "note": Input(optional=True)}
    assert type(job.inputs["rate"]) is float


def test_each_input_without_a_value_is_a_problem_that_names_the_option() -> None:
    found = list(input_problems(component(TYPED)))
    assert found == [
        ("inputs.n", "has no value", "use --set inputs.n=INTEGER"),
        ("inputs.data", "has no value", "use --set inputs.data=PATH"),
    ]


def test_values_of_set_are_held_to_the_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = apply_overrides(component(TYPED), ["inputs.n=10", "inputs.loss=l3", "inputs.flag=2", "inputs.data=rows.csv"])
    assert job.inputs["data"] == Input("uri_file", str(tmp_path / "rows.csv"), "ro_mount", description="rows")
    assert problems(job) == [
        ("inputs.n", "is 10, must be at most 9"),
        ("inputs.loss", "is 'l3', must be one of: l1, l2"),
        ("inputs.flag", "is 2, must be true or false"),
    ]
    right = apply_overrides(job, ["inputs.n=9", "inputs.loss=l2", "inputs.flag=false", "inputs.note=010"])
    assert problems(right) == [] and right.inputs["note"] == "010" and right.inputs["flag"] is False


def test_the_path_of_data_can_be_set_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = apply_overrides(component(TYPED), ["inputs.data.path=rows.csv"])
    assert job.inputs["data"] == Input("uri_file", str(tmp_path / "rows.csv"), "ro_mount", description="rows")


def test_a_matrix_gives_values_and_is_held_to_the_declaration() -> None:
    job = with_matrix(component(TYPED), ["n=1,12"], declare=False)
    assert ("matrix.n[1]", "is 12, must be at most 9") in problems(job)
    assert ("inputs.n", "has no value") not in problems(job)


def test_what_is_dumped_is_read_back_and_held_to_the_types() -> None:
    job = apply_overrides(component(TYPED), ["inputs.n=2", "inputs.data=/x"])
    again = parse_job(dump_job(job), "/elsewhere/job.yml").job
    assert again._replace(source=job.source) == job
    assert problems(apply_overrides(again, ["inputs.n=0"])) == [("inputs.n", "is 0, must be at least 1")]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("version", "name: a\nversion: 1\ncommand: echo\n"),
        ("is_deterministic", "name: a\nis_deterministic: true\ncommand: echo\n"),
        ("inputs.n", "name: a\ncommand: echo\ninputs: {n: {type: integer}}\n"),
        ("inputs.n", "name: a\ncommand: echo\ninputs: {n: {type: number, min: 1}}\n"),
    ],
)
def test_a_component_without_a_schema_is_known_by_its_keys_and_a_warning_says_so(key: str, text: str) -> None:
    loaded = parse_job(text, "c.yml")
    assert "%s: only a component has this key" % key in loaded.warnings[0]


def test_a_schema_of_a_job_makes_a_job() -> None:
    schema = SCHEMA.replace("commandComponent", "commandJob")
    assert "version: is not a key of a job" in refusal(schema + "command: x\nversion: 1\n")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (SCHEMA + "command: x\n", "name: is missing"),
        (HEAD.replace("name: a", "name: Fit-line"), "'Fit-line' is not a component's name"),
        (HEAD + "inputs: {n: {default: 1}}\n", "inputs.n.type: is missing"),
        (HEAD + "inputs: {n: 1}\n", "inputs.n: expected a mapping"),
        (HEAD + "inputs: {n: {type: integer, default: two}}\n", "inputs.n.default: is 'two', must be a whole number"),
        (HEAD + "inputs: {n: {type: float}}\n", "inputs.n.type: 'float' is not one of the allowed values"),
        (HEAD + "inputs: {d: {type: uri_file, default: x}}\n", "inputs.d.default: is not for data"),
        (HEAD + "inputs: {s: {type: string, max: 3}}\n", "inputs.s.max: is not for a string"),
        (HEAD + "inputs: {s: {type: string, enum: [1]}}\n", "inputs.s.enum[0]: expected text"),
        (HEAD + "outputs: {o: {mode: upload}}\n", "outputs.o.type: is missing"),
    ],
)
def test_what_azure_refuses_is_refused(text: str, part: str) -> None:
    assert part in refusal(text)


def test_all_problems_are_told_at_once() -> None:
    told = refusal(HEAD + "inputs: {n: {type: float}, d: {type: uri_file, default: x}}\noutputs: {o: {}}\n")
    assert told.startswith("/jobs/c.yml:5: 3 problems")


def test_keys_of_a_job_count_and_warn() -> None:
    loaded = parse_job(HEAD + "compute: local\nowner: me\n", "c.yml")
    assert loaded.job.compute == "local"
    assert [text.partition(": ")[2] for text in loaded.warnings] == [
        "compute: is a key of a job, which Azure's components do not have",
        "owner: is not a key of a component; ignored",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("type: pipeline\njobs: {}\n", "type: a pipeline job cannot be run here"),
        ("jobs: {a: {}}\n", "jobs: a pipeline job cannot be run here"),
        ("trial: {command: x}\n", "trial: a sweep job cannot be run here"),
        ("type: automl\ntask: x\n", "an AutoML job cannot be run here".replace("an ", "a ")),
        ("target_column_name: y\n", "target_column_name: an AutoML job cannot be run here"),
        ("mini_batch_size: 3\n", "mini_batch_size: a parallel job cannot be run here"),
        ("type: parallel\n", "type: a parallel job cannot be run here"),
        ("$schema: https://x/latest/environment.schema.json\nimage: x\n", "$schema: an environment cannot be run here"),
    ],
)
def test_other_kinds_are_refused_by_name(text: str, part: str) -> None:
    assert part in refusal(text)


def test_additional_includes_start_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text(HEAD + "additional_includes: [../lib, a.py]\n")
    includes = load_job(str(path)).job.additional_includes
    assert includes == (str(tmp_path.parent / "lib"), str(tmp_path / "a.py"))
    assert "is not a local path" in refusal(HEAD + "additional_includes: ['https://h/x']\n")
