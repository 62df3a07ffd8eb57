"""Job + facts → plan."""

from __future__ import annotations

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.errors import JobError, PlanError
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Output, Resources
from worldsize.plan.run_paths import RunPaths
from worldsize.service.secrets import split_secrets
from worldsize.service.submission.make_plan import make_plan, with_client_paths, with_run_directory

PATHS = RunPaths("/runs/20260101-000000-000abc")
SHARED = ComputeFacts(None, 8, shared_host=True)


def plan(job: Job, facts: ComputeFacts = SHARED):
    return make_plan(job, facts, "local", PATHS, 1.5, ())


def test_the_layout_is_node_major():
    job = Job("true", resources=Resources(2), distribution=PyTorchDistribution(3))
    ranks = [(node.node_rank, rank.local_rank, rank.rank) for node in plan(job).nodes for rank in node.ranks]
    assert ranks == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 3), (1, 1, 4), (1, 2, 5)]
    assert plan(job).world_size == 6


def test_an_optional_input_without_a_value_takes_its_part_of_the_command_along():
    job = Job("run.sh $[[--data ${{inputs.data}}]] end", inputs={"data": Input(optional=True)})
    assert plan(job).argv == ("bash", "-c", "run.sh  end")
    assert not any("INPUT" in name for name in plan(job).environment)


def test_expressions_in_variables_are_resolved():
    variables = {"DATA": "${{inputs.data}}/x", "MODEL": "${{ outputs.model }}", "SHELL_LIKE": "${HOME} $$"}
    job = Job("true", inputs={"data": "/d"}, outputs={"model": Output()}, environment_variables=variables)
    found = plan(job).environment
    assert (found["DATA"], found["MODEL"]) == ("/d/x", PATHS.outputs + "/model")
    assert found["SHELL_LIKE"] == "${HOME} $$"
    with pytest.raises(JobError) as caught:
        plan(job._replace(environment_variables={"A": "${{inputs.dta}}"}))
    assert caught.value.where == "environment_variables.A" and "did you mean 'data'" in str(caught.value)


def test_words_are_left_alone_where_there_is_nothing_to_name():
    words = ("echo", "${{inputs.lr}}", "$HOME")
    assert plan(Job("x", argv=words)).argv == words
    job = Job("x", argv=words, inputs={"lr": 0.1})
    assert plan(job).argv == ("echo", "0.1", "$HOME")
    with pytest.raises(JobError) as caught:
        plan(job._replace(argv=("echo", "${{inputs.rl}}")))
    assert caught.value.where == "argv"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxTail python3 -c 1", "python3"),
        ("MODE=fast bin/train --token=a/b", "train"),
        ("TOKEN=x/y.py python tools/train.py", "train"),
        ("", "run"),
    ],
)
def test_a_run_is_called_after_its_program(command, name):
    """Found by review: of a variable before it, the end of a secret was the name."""
    assert plan(Job(command or "A=1")).name == name


def test_other_inputs_make_another_plan_of_the_same_shape():
    job = Job("echo ${{inputs.lr}} ${{outputs.m}}", inputs={"lr": 0.1}, outputs={"m": Output()})
    other, elsewhere = (
        job._replace(inputs={"lr": 0.2}),
        RunPaths("/runs/20260101-000000-000abc/20260101-000000-000abc_1"),
    )
    assert with_run_directory(plan(job), other, elsewhere) == make_plan(other, SHARED, "local", elsewhere, 1.5, ())


@pytest.mark.parametrize("path", ["azureml://datastores/a/paths/b", "azureml:model:1", "https://x.blob/y"])
def test_an_output_at_a_remote_place_is_the_runs_own(path):
    job = Job("echo ${{outputs.model}}", outputs={"model": Output(path=path), "mine": Output(path="/mine")})
    found = plan(job)
    assert found.argv[2] == "echo " + PATHS.outputs + "/model"
    assert found.environment["WORLDSIZE_OUTPUT_MODEL"] == PATHS.outputs + "/model"
    assert found.environment["WORLDSIZE_OUTPUT_MINE"] == "/mine"


def test_the_plan_knows_a_nodes_gpus():
    assert plan(Job("true"), ComputeFacts(4, 8, True)).gpus == 4 and plan(Job("true")).gpus is None


def test_threads_that_the_job_asks_for_win_over_what_a_shell_left():
    assert plan(Job("true", threads=4)).environment["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in plan(Job("true")).environment
    mine = Job("true", threads=4, environment_variables={"OMP_NUM_THREADS": "2"})
    assert plan(mine).environment["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(("processes", "nodes", "threads"), [(2, 1, 4), (2, 2, 2), (16, 1, 1)])
def test_the_cores_of_a_shared_host_are_shared_out_over_all_its_ranks(processes, nodes, threads):
    job = Job("true", resources=Resources(nodes), distribution=PyTorchDistribution(processes))
    assert plan(job).threads == threads


def test_nodes_of_their_own_are_bound_and_share_nothing():
    job = Job("true", resources=Resources(2), distribution=PyTorchDistribution(3))
    found = plan(job, ComputeFacts(None, 8))
    assert found.threads == 2
    assert found.bind == "node"
    assert plan(job._replace(bind="none"), ComputeFacts(None, 8)).bind == "none"
    assert plan(job).bind == "none"


def test_more_processes_than_gpus_are_refused_unless_shared():
    job = Job("true", distribution=PyTorchDistribution(4))
    with pytest.raises(PlanError, match="4 processes per node, but a node has 2 GPUs"):
        plan(job, ComputeFacts(2, 8, True))
    with pytest.raises(PlanError, match="0 GPUs"):
        plan(job._replace(visible_devices=True), ComputeFacts(0, 8, True))
    assert plan(job._replace(share_gpus=True), ComputeFacts(2, 8, True)).world_size == 4
    assert plan(job, ComputeFacts(0, 8, True)).world_size == 4


MAPPED = (("/mnt/app", "/app"),)
APART = ComputeFacts(mapped=MAPPED, python="/opt/env/bin/python", kept=("CCP_JOBID",), rdzv_endpoint="n2:29400")
ON_SHARE = RunPaths("/mnt/app/runs/20260101-000000-000abc")


def test_what_nodes_read_and_write_is_called_as_they_call_it():
    job = Job(
        "cat ${{inputs.data}} ${{inputs.word}} > ${{outputs.out}}/x ${{outputs.kept}}",
        inputs={"data": Input(path="/mnt/app/data"), "word": "/mnt/app/word"},
        outputs={"out": Output(), "kept": Output(path="/mnt/app/models")},
    )
    found = make_plan(job, APART, "lab", ON_SHARE, 1.5, ())
    root = "/app/runs/20260101-000000-000abc"
    assert found.argv[2] == "cat /app/data /mnt/app/word > %s/outputs/out/x /app/models" % root
    assert found.environment["WORLDSIZE_INPUT_DATA"] == "/app/data"
    assert found.environment["WORLDSIZE_OUTPUT_KEPT"] == "/app/models"
    assert (found.python, found.rdzv_endpoint, found.kept) == ("/opt/env/bin/python", "n2:29400", ("CCP_JOBID",))
    assert with_run_directory(found, job, ON_SHARE, MAPPED) == found


def test_a_job_may_say_a_shared_path_by_either_name():
    job = Job(
        "true",
        code="/app/src",
        inputs={"a": Input(path="/app/a"), "b": Input(path="/mnt/app/b"), "c": Input(path="/data"), "d": 1},
        outputs={"o": Output(path="/app/o"), "p": Output()},
    )
    found = with_client_paths(job, MAPPED)
    assert found.code == "/mnt/app/src"
    paths = [getattr(value, "path", value) for value in found.inputs.values()]
    assert paths == ["/mnt/app/a", "/mnt/app/b", "/data", 1]
    assert [output.path for output in found.outputs.values()] == ["/mnt/app/o", None]
    assert with_client_paths(found, MAPPED) == found


@pytest.mark.parametrize(
    ("conventions", "kept"),
    [((), ("SLURM_A", "CCP_A")), (("slurm",), ("SLURM_A",)), (("hpcpack", "torch"), ("CCP_A",)), (("torch",), ())],
)
def test_the_clusters_own_variables_follow_the_conventions(conventions, kept):
    facts = ComputeFacts(kept=("SLURM_A", "CCP_A"))
    assert plan(Job("true", conventions=conventions), facts).kept == kept


def test_labels_are_kept_without_secrets_and_only_those_that_are_said():
    assert plan(Job("x")).labels == {}
    job = Job(
        "x", experiment_name="e", description="see https://me:hunter2@host/x", tags={"lr": "1", "api_token": "abc123"}
    )
    labels = plan(job).labels
    assert (labels["experiment_name"], labels["tags"]["lr"]) == ("e", "1")
    assert "hunter2" not in str(labels) and "abc123" not in str(labels)


def test_labels_hold_no_value_of_a_secret_variable_and_hide_nothing_else_of_the_plan():
    """What is hidden is kept aside for the ranks until the run has ended; no rank needs labels."""
    job = Job(
        "x",
        description="as k3y-canary said",
        tags={"a": "k3y-canary"},
        environment_variables={"HUB_TOKEN": "k3y-canary"},
    )
    shown, hidden = split_secrets(plan(job))
    assert "k3y-canary" not in shown.to_json()
    assert list(hidden) == ["environment"] and shown.labels["tags"].keys() == {"a"}
