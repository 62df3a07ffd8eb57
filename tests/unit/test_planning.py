"""Job + facts → plan."""

from __future__ import annotations

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.errors import JobError, PlanError
from worldsize.plan.paths import RunPaths
from worldsize.service.planning import make_plan
from worldsize.spec.distribution import MpiDistribution, PyTorchDistribution, TensorFlowDistribution
from worldsize.spec.job import Input, Job, Output, Resources

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
    assert found.binding == ((0, 1), (2, 3), (4, 5))
    assert plan(job._replace(bind="none"), ComputeFacts(None, 8)).binding == ()
    assert plan(job).binding == ()


def test_more_processes_than_gpus_are_refused_unless_shared():
    job = Job("true", distribution=PyTorchDistribution(4))
    with pytest.raises(PlanError, match="4 processes per node, but a node has 2 GPUs"):
        plan(job, ComputeFacts(2, 8, True))
    with pytest.raises(PlanError, match="0 GPUs"):
        plan(job._replace(visible_devices=True), ComputeFacts(0, 8, True))
    assert plan(job._replace(share_gpus=True), ComputeFacts(2, 8, True)).world_size == 4
    assert plan(job, ComputeFacts(0, 8, True)).world_size == 4


@pytest.mark.parametrize("distribution", [MpiDistribution(2), TensorFlowDistribution()])
def test_a_distribution_that_cannot_run_yet_says_so(distribution):
    with pytest.raises(PlanError, match="cannot run a %s distribution yet" % distribution.type):
        plan(Job("true", distribution=distribution))
