"""`-w` and `--set`: what the command line changes is checked as the file was."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Output, Resources
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.set_option import apply_overrides, override_origins

JOB = Job(
    command="python t.py ${{inputs.lr}}",
    inputs={"lr": 0.1, "data": Input(path="/x"), "text": "a"},
    outputs={"model": Output()},
    environment_variables={"A": "1"},
    distribution=PyTorchDistribution(2),
    slurm={"partition": "gpu"},
    source="job.yml",
)


@pytest.mark.parametrize(
    ("world", "nodes", "processes"),
    [("2x4", 2, 4), ("1X1", 1, 1), ("3×2", 3, 2), (" 2x4 ", 2, 4), ("8", 8, 2), ("002x004", 2, 4)],
)
def test_a_world_sets_nodes_and_processes(world: str, nodes: int, processes: int) -> None:
    job = with_world(JOB, world)
    assert (job.resources.instance_count, job.distribution) == (nodes, PyTorchDistribution(processes))


def test_a_world_keeps_what_else_the_job_says() -> None:
    job = Job(command="x", distribution=PyTorchDistribution(1, "torchrun"), resources=Resources(1, shm_size="2g"))
    changed = with_world(job, "2x4")
    assert changed.distribution == PyTorchDistribution(4, "torchrun")
    assert changed.resources == Resources(2, shm_size="2g")
    assert with_world(Job(command="x", distribution=PlainDistribution(1)), "1x3").distribution == PlainDistribution(3)


def test_without_a_distribution_a_world_is_of_plain_ranks() -> None:
    assert with_world(Job(command="x"), "2x4").distribution == PlainDistribution(4)
    assert with_world(Job(command="x"), "2").distribution is None


@pytest.mark.parametrize(
    "world", ["", "x", "2x", "x4", "0", "0x4", "2x0", "-1x2", "2x-1", "2*4", "2x4x2", "a", "1.5", "٣x٣", "2 x 4", "1e3"]
)
def test_what_is_no_world_is_refused(world: str) -> None:
    with pytest.raises(JobError) as caught:
        with_world(JOB, world)
    assert caught.value.where == "-w"


@pytest.mark.parametrize("world", ["1001x1000", "999999999x999999999", "500001", "1" * 5000])
def test_more_ranks_than_the_limit_are_refused(world: str) -> None:
    with pytest.raises(JobError):
        with_world(JOB, world)


@pytest.mark.parametrize(
    ("setting", "field", "expected"),
    [
        ("inputs.lr=0.2", "inputs", {"lr": 0.2, "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr=010", "inputs", {"lr": 8, "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr='010'", "inputs", {"lr": "010", "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr=yes", "inputs", {"lr": True, "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr=2024-01-01", "inputs", {"lr": "2024-01-01", "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr=a: b # c", "inputs", {"lr": "a: b # c", "data": Input(path="/x"), "text": "a"}),
        ("inputs.lr=", "inputs", {"lr": "", "data": Input(path="/x"), "text": "a"}),
        ("inputs.data.mode=direct", "inputs", {"lr": 0.1, "data": Input(path="/x", mode="direct"), "text": "a"}),
        ("outputs.model.path=/there", "outputs", {"model": Output(path="/there")}),
        ("resources.instance_count=2", "resources", Resources(2)),
        ("environment_variables.X=*", "environment_variables", {"A": "1", "X": "*"}),
        ("environment_variables.X=!", "environment_variables", {"A": "1", "X": "!"}),
        ("environment_variables.X=&", "environment_variables", {"A": "1", "X": "&"}),
        ("environment_variables.X==", "environment_variables", {"A": "1", "X": "="}),
        ("environment_variables.X=<<", "environment_variables", {"A": "1", "X": "<<"}),
        ("environment_variables.X=a=b", "environment_variables", {"A": "1", "X": "a=b"}),
        ("environment_variables.X=true", "environment_variables", {"A": "1", "X": "true"}),
        ("environment_variables.X=1.50", "environment_variables", {"A": "1", "X": "1.50"}),
        ("environment_variables.X=null", "environment_variables", {"A": "1", "X": "null"}),
        ("environment_variables.X=", "environment_variables", {"A": "1", "X": ""}),
        ("environment_variables.a.b=1", "environment_variables", {"A": "1", "a.b": "1"}),
        ("tags={a: 1, b: two}", "tags", {"a": "1", "b": "two"}),
        ("conventions=[torch, slurm]", "conventions", ("torch", "slurm")),
        ("distribution.process_count_per_instance=4", "distribution", PyTorchDistribution(4)),
        ("distribution.type=none", "distribution", PlainDistribution(2)),
        ("command=echo # not a comment", "command", "echo # not a comment"),
        ("command=123", "command", "123"),
        ("command=[ -e x ]", "command", "[ -e x ]"),
        ('command="echo" x', "command", '"echo" x'),
        ("slurm.account=me", "slurm", {"partition": "gpu", "account": "me"}),
        ("resources.properties.a.b.c=1", "resources", Resources(properties={"a": {"b": {"c": 1}}})),
        ("hpcpack.nodes=[n1, n2]", "hpcpack", {"nodes": ("n1", "n2")}),
        ("hpcpack.job_properties.HoldUntil=x", "hpcpack", {"job_properties": {"HoldUntil": "x"}}),
        ("slurm.time=1:00:00", "slurm", {"partition": "gpu", "time": "1:00:00"}),
        ("slurm.exclusive=true", "slurm", {"partition": "gpu", "exclusive": "true"}),
        ("slurm.sbatch_options.mail-type=END", "slurm", {"partition": "gpu", "sbatch_options": {"mail-type": "END"}}),
        ("grace=2.5", "grace", 2.5),
    ],
)
def test_a_setting_changes_its_key_and_nothing_else(setting: str, field: str, expected: Any) -> None:
    changed = apply_overrides(JOB, [setting])
    assert getattr(changed, field) == expected
    assert changed._replace(**{field: getattr(JOB, field)}) == JOB


def test_settings_apply_in_their_order_and_are_checked_together() -> None:
    settings = ["distribution.process_count_per_instance=0", "distribution.process_count_per_instance=3"]
    assert apply_overrides(JOB, settings).distribution == PyTorchDistribution(3)
    plain = JOB._replace(distribution=None)
    both = ["distribution.process_count_per_instance=3", "distribution.type=pytorch"]
    assert apply_overrides(plain, both).distribution == PyTorchDistribution(3)


def test_paths_typed_on_the_command_line_start_at_the_current_directory(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert apply_overrides(JOB, ["code=src"]).code == str(tmp_path / "src")
    assert apply_overrides(JOB, ["inputs.data.path=azureml:a:1"]).inputs["data"] == Input(path="azureml:a:1")


def test_extras_of_a_distribution_are_left_out() -> None:
    assert apply_overrides(JOB, ["distribution.added=7"]).distribution == PyTorchDistribution(2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("inputs.lr", "write key=value"),
        ("=3", "write key=value"),
        ("", "write key=value"),
        ("inputs..lr=3", "not a key"),
        (".=3", "not a key"),
        ("comand=x", "did you mean 'command'?"),
        ("inputs.lrr=3", "did you mean 'lr'?"),
        ("outputs.modle.path=3", "did you mean 'model'?"),
        ("resources.instanc_count=2", "did you mean 'instance_count'?"),
        ("resources.instance_count=0", "is 0, must be at least 1"),
        ("resources.instance_count=two", "expected a whole number, found 'two'"),
        ("resources=2", "expected a mapping of keys"),
        ("inputs.lr.path=x", "inputs.lr is a number, which has no keys"),
        ("inputs.lr=[1]", "expected a literal"),
        ("distribution.type=pytroch", "did you mean 'pytorch'?"),
        ("command=", "is missing"),
        ("argv=[a]", "cannot be combined with command"),
        ("limits.timeout=.nan", "must be more than 0"),
        ("environment_variables.=x", "write key=value"),
        ("a" * 100_000 + "=1", "not a key of a job"),
        (".".join("a" * 200) + "=1", "not a key"),
    ],
)
def test_a_wrong_setting_is_named(setting: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        apply_overrides(JOB, [setting])
    assert message in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_value_is_never_part_of_the_place() -> None:
    assert override_origins(["environment_variables.TOKEN=s3cret"]) == {
        "environment_variables.TOKEN": "--set environment_variables.TOKEN"
    }
    with pytest.raises(JobError) as caught:
        apply_overrides(JOB, ["environment_variables.TOKEN=s3cret\0"])
    assert "s3cret" not in str(caught.value)


def test_exact_words_are_replaced_by_words() -> None:
    job = Job(argv=("echo", "a b"), command="echo 'a b'")
    assert apply_overrides(job, ["argv=[echo, c d]"]) == Job(argv=("echo", "c d"), command="echo 'c d'")
    with pytest.raises(JobError, match="exact words"):
        apply_overrides(job, ["command=ls"])
