"""Several runs of one job: what `matrix` and `count` mean, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Input, Job, element_job, element_values, is_array_job
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.reading.matrix import with_count, with_matrix

HEAD = "command: python train.py ${{inputs.lr}}\ninputs:\n  lr: 0.1\n  seed: 0\n  data: {path: /tmp}\n"
JOB = Job(command="x", inputs={"lr": 0.1, "seed": 0, "data": Input(path="/tmp")})


def read(text: str) -> Job:
    return parse_job(HEAD + text, "job.yml").job


def test_one_run_for_each_combination_the_last_name_fastest() -> None:
    job = read("matrix:\n  lr: [0.1, 0.01]\n  seed: [1, 2, 3]\nat_once: 2\n")
    assert [tuple(values.items()) for values in element_values(job)] == [
        (("lr", lr), ("seed", seed)) for lr in (0.1, 0.01) for seed in (1, 2, 3)
    ]
    single = element_job(job, element_values(job)[4])
    assert single.inputs == {"lr": 0.01, "seed": 2, "data": Input(path="/tmp")}
    assert not is_array_job(single) and single.at_once is None
    assert parse_job(dump_job(job), "job.yml").job == job
    assert parse_job(dump_job(single), "job.yml").job == single


def test_a_count_is_so_many_equal_runs() -> None:
    job = read("count: 3\n")
    assert element_values(job) == [{}, {}, {}] and is_array_job(job)
    assert element_job(job, {}) == read("")
    assert not is_array_job(read("")) and not is_array_job(read("matrix: {}\n"))


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        ("matrix: [1]\n", "job.yml:6", "matrix: expected a mapping of keys, found a list", None),
        ("matrix:\n  lr: 0.1\n", "job.yml:7", "matrix.lr: expected a list of values, found 0.1", "such as [0.1, 0.01]"),
        ("matrix:\n  lr: []\n", "job.yml:7", "matrix.lr: expected a list of values, found an empty list", None),
        ("matrix:\n  lr:\n    - 0.1\n    - {a: 1}\n", "job.yml:9", "matrix.lr[1]: expected a literal", None),
        ("matrix:\n  lr:\n    - 0.1\n    -\n", "job.yml:9", "matrix.lr[1]: expected a literal, found nothing", None),
        ('matrix: {lr: ["a\\0"]}\n', "job.yml:6", "matrix.lr[0]: holds a NUL byte", None),
        ("matrix:\n  sed: [1]\n", "job.yml:7", "matrix.sed: names none of the job's inputs", "did you mean 'seed'?"),
        ("matrix:\n  data: [a, b]\n", "job.yml:7", "matrix.data: is data with a path", "make it a literal"),
        ("count: 0\n", "job.yml:6", "count: is 0, must be at least 1", None),
        ("count: 10001\n", "job.yml:6", "count: is 10001, must be at most 10000", None),
        ("count: 2\nmatrix: {lr: [1]}\n", "job.yml:6", "count: cannot be combined with matrix", "repeat: [1, 2, 3]"),
        ("at_once: 2\n", "job.yml:6", "at_once: has no meaning for a single run", "matrix or count"),
        (
            "matrix: {lr: [%s], seed: [%s]}\n" % (",".join(["1"] * 101), ",".join(["1"] * 100)),
            "job.yml:6",
            "matrix: 10100 runs are more than the limit of 10000",
            "in parts",
        ),
    ],
)
def test_what_means_nothing_is_said_with_its_line(text: str, where: str, what: str, hint: str | None) -> None:
    with pytest.raises(JobError) as caught:
        read(text)
    assert caught.value.where == where
    assert caught.value.what.startswith(what)
    assert (hint or "") in (caught.value.hint or "")


def test_typed_values_are_read_as_yaml() -> None:
    job = with_matrix(JOB, ["lr=0.1,010, yes ,a b,null", "seed=[1, 'x,y', 2e1]"], declare=False)
    assert job.matrix == {"lr": (0.1, 8, True, "a b", "null"), "seed": (1, "x,y", "2e1")}
    assert with_matrix(JOB, ["lr='a,b', '', c"], declare=False).matrix["lr"] == ("a,b", "", "c")
    assert with_matrix(job, ["lr=1"], declare=False).matrix["lr"] == (1,)


def test_a_command_line_declares_what_it_varies() -> None:
    job = with_matrix(Job(argv=("python", "a.py")), ["lr=0.1,0.2"], declare=True)
    assert job.inputs == {"lr": 0.1} and job.matrix == {"lr": (0.1, 0.2)}


@pytest.mark.parametrize(
    ("setting", "where", "what"),
    [
        ("lr", "--matrix", "'lr' varies no input"),
        ("=1", "--matrix", "'=1' varies no input"),
        ("l r=1", "--matrix", "varies no input"),
        ("lr=", "--matrix lr", "a value is empty"),
        ("lr=1,,2", "--matrix lr", "a value is empty"),
        ("lr=[]", "--matrix lr", "expected a list of values, found an empty list"),
        ("lr=[[1]]", "--matrix lr", "expected a literal"),
        ("lt=1", "--matrix lt", "names none of the job's inputs"),
        ("data=1", "--matrix data", "is data with a path"),
        ("lr=%s" % ",".join(["1"] * 10001), "--matrix", "10001 runs are more than the limit of 10000"),
    ],
)
def test_what_is_typed_wrong_is_named(setting: str, where: str, what: str) -> None:
    with pytest.raises(JobError) as caught:
        with_matrix(JOB, [setting], declare=False)
    assert caught.value.where == where
    assert what in caught.value.what


@pytest.mark.parametrize("count", [0, -1, 10001])
def test_a_count_has_limits(count: int) -> None:
    with pytest.raises(JobError, match="1 to 10000"):
        with_count(JOB, count)


def test_a_count_beside_a_matrix_is_refused() -> None:
    assert with_count(JOB, 2).count == 2
    with pytest.raises(JobError, match="combined with a matrix"):
        with_count(with_matrix(JOB, ["lr=1"], declare=False), 2)
