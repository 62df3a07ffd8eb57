"""CPUs and GPUs of the ranks: what the allocation has, shared out, as srun's own one task per rank would have it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from slurm.cluster import Cluster, Flavour
from slurm.login import UP, Login, login_of

MASK = "import json, os; print(json.dumps([os.environ['NODE_RANK'], sorted(os.sched_getaffinity(0))]))"


@pytest.fixture(scope="module")
def bound(slurm: Cluster) -> Iterator[Cluster]:
    """A cluster that binds tasks to CPUs (task/affinity), of as many CPUs per node as this machine really has."""
    with Cluster.start(Flavour(accounting=False, affinity=True, nodes=2)) as cluster:
        yield cluster


@pytest.fixture
def binding(bound: Cluster) -> Iterator[Login]:
    with login_of(bound) as login:
        yield login


def masks(login: Login, *words: str) -> list[list[int]]:
    """The CPUs of each rank of 2 nodes × 2, in order."""
    login.run("-w", "2x2", *words, "--", "python", "-c", MASK)
    found = [login.ok("logs", "--rank", str(rank), "--raw").out for rank in range(4)]
    return [json.loads(text)[1] for text in found]


def test_the_masks_are_those_of_sruns_own_task_per_rank(binding: Login) -> None:
    ours = masks(binding)
    program = "import json, os; print(json.dumps([int(os.environ['SLURM_PROCID']), sorted(os.sched_getaffinity(0))]))"
    words = ["srun", "-N2", "--ntasks-per-node=2", "--cpu-bind=cores", "python3", "-c", program]
    theirs = dict(json.loads(line) for line in binding.cluster.command(*words).splitlines())
    assert ours == [theirs[rank] for rank in range(4)]
    assert not set(ours[0]) & set(ours[1]) and not set(ours[2]) & set(ours[3])


def test_the_step_has_all_the_cpus_that_the_ranks_ask_for(binding: Login) -> None:
    """One rank per node with two CPUs: srun since 22.05 takes nothing over from sbatch's --cpus-per-task."""
    binding.run("-w", "2x1", "--set", "slurm.cpus_per_rank=2", "--", "python", "-c", MASK)
    assert {tuple(json.loads(line.split(": ", 1)[1])[1]) for line in binding.ok("logs", "--fold", "off").lines} == {
        (0, 1)
    }
    threads = ["sh", "-c", "echo $OMP_NUM_THREADS"]
    environ = {name: value for name, value in binding.environ.items() if name != "OMP_NUM_THREADS"}
    binding.environ = environ
    binding.run("-w", "2x1", "--set", "slurm.cpus_per_rank=2", "--", *threads)
    assert binding.ok("logs").out == "×2: 2\n"


@pytest.mark.exhaustive
def test_jobs_beside_each_other_on_a_node_have_cpus_of_their_own(binding: Login) -> None:
    """srun is told not to bind, and the step stays on the CPUs of its job all the same."""
    binding.write("mask.py", MASK)
    command = "python mask.py; " + UP + "; until test -e outputs/go; do sleep 0.05; done"
    runs = [binding.running(command, "1x1", code=".", slurm={"nodelist": "node2"}) for _ in range(2)]
    for run in runs:
        open(binding.path(run, "outputs", "go"), "w").close()
        assert binding.ended(run)["state"] == "SUCCEEDED"
    assert sorted(json.loads(binding.ok("logs", run, "--raw").out)[1] for run in runs) == [[0], [1]]


@pytest.mark.exhaustive
def test_ranks_that_are_not_to_be_bound_share_what_there_is(binding: Login) -> None:
    assert masks(binding, "--set", "bind=none") == [[0, 1]] * 4


def test_gpus_are_allocated_and_seen(login: Login) -> None:
    command = "echo $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE"
    run = login.run(login.job(command, "2x2", slurm={"gpus_per_node": 2}))
    assert login.ok("logs", run).out == "×4: 0,1 2\n"
    run = login.run(login.job(command, "1x4", slurm={"gpus_per_node": "h100:4"}, visible_devices=True))
    assert sorted(login.ok("logs", run, "--fold", "off").lines) == ["0:%d: %d 4" % (rank, rank) for rank in range(4)]


def test_each_rank_has_one_of_the_gpus_that_its_job_was_given(login: Login) -> None:
    """Two jobs on the same node: the second one's do not begin with 0."""
    command = UP + "; echo $CUDA_VISIBLE_DEVICES; until test -e outputs/go; do sleep 0.05; done"
    asked = {"gpus_per_node": "h100:2", "nodelist": "node1"}
    runs = [login.running(command, "1x2", visible_devices=True, slurm=asked) for _ in range(2)]
    for run in runs:
        open(login.path(run, "outputs", "go"), "w").close()
        assert login.ended(run)["state"] == "SUCCEEDED"
    assert [login.ok("logs", run, "--rank", rank, "--raw").out for run in runs for rank in "01"] == [
        "0\n",
        "1\n",
        "2\n",
        "3\n",
    ]


def test_more_processes_than_gpus_are_refused(login: Login) -> None:
    result = login.refused("run", login.job("true", "1x4", slurm={"gpus_per_node": 2}))
    assert "4 processes per node, but a node has 2 GPUs" in result.err and "process_count_per_instance" in result.err


def test_more_gpus_than_a_node_has_are_refused(login: Login) -> None:
    result = login.refused("run", login.job("true", "1x1", slurm={"gpus_per_node": 5}))
    assert "5 GPUs per node" in result.err and "have 4" in result.err


def test_the_agents_step_has_all_the_cpus_of_the_job(login: Login) -> None:
    """Slurm 24.11 gives a step's tasks as many as the job's --cpus-per-task says (SLURM_TRES_PER_TASK)."""
    run = login.running(world="2x2", slurm={"cpus_per_rank": 2})
    told = login.cluster.command("scontrol", "show", "step", login.native(run) + ".0")
    login.ok("cancel", run)
    login.ended(run)
    assert " CPUs=8 " in told, told
