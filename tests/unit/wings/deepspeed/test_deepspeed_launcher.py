"""Commands of DeepSpeed's own launcher: recognised, told of the allocation, its ranks made ours; who failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.launchers.rank_process import EndedProcess, NodeEnd, NodeLaunch, Process
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import program_name
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.deepspeed.agent.launcher import deepspeed_environment, rank_exit_code, write_launch_files
from worldsize.wings.deepspeed.distribution import (
    DeepSpeedDistribution,
    with_launcher,
)
from worldsize.wings.mpi.distribution import MpiDistribution

SITE = os.path.join(os.path.dirname(__file__), *[".."] * 4, "src", "worldsize", "inrank", "sitecustomize.py")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("deepspeed train.py", True),
        ("  deepspeed --num_gpus 2 train.py --deepspeed", True),
        ("A=1 B='x' deepspeed train.py", True),
        ("pip list\ndeepspeed train.py", True),
        ("cd src && exec deepspeed train.py", True),
        ("/opt/env/bin/deepspeed train.py", True),
        ("python train.py --deepspeed ds.json", False),
        ("python deepspeed train.py", False),
        ("echo deepspeed", False),
        ("python -m deepspeed_train x", False),
    ],
)
def test_commands_of_deepspeeds_launcher(command, found):
    assert bool(program_name("deepspeed", command, ())) == found


def test_words_of_deepspeeds_launcher():
    assert program_name("deepspeed", "", ("deepspeed", "train.py")) == "deepspeed"
    assert program_name("deepspeed", "", ("/e/bin/deepspeed", "t.py")) == "/e/bin/deepspeed"
    assert program_name("deepspeed", "deepspeed x", ("python", "deepspeed")) == ""


@pytest.mark.parametrize(
    ("distribution", "gpus", "found"),
    [
        (DeepSpeedDistribution(2), None, ("deepspeed", [2, 2])),
        (PyTorchDistribution(2), 8, ("deepspeed", [2, 2])),
        (PyTorchDistribution(1), 4, ("deepspeed", [4, 4])),
        (MpiDistribution(1), None, ("deepspeed", [1, 1])),
        (MpiDistribution(2, "mpirun"), None, ("mpirun", [2, 2])),
        (PyTorchDistribution(2, "torchrun"), None, ("torchrun", [2, 2])),
    ],
)
def test_it_is_started_once_per_node_unless_another_launcher_is_asked_for(distribution, gpus, found):
    arrangement = with_launcher(distribution.arrange(2), "deepspeed train.py", (), gpus)
    assert (arrangement.launcher, [len(node.ranks) for node in arrangement.nodes]) == found
    assert with_launcher(distribution.arrange(2), "python train.py", (), gpus) == distribution.arrange(2)


@pytest.mark.parametrize(
    ("command", "argv"),
    [("/opt/bin/deepspeed t.py", ()), ("", ("./deepspeed", "t.py")), ("true; x/deepspeed t.py", ())],
)
def test_a_launcher_that_could_not_be_told_of_the_other_nodes_is_refused(command, argv):
    with pytest.raises(PlanError, match="named by a path"):
        with_launcher(PyTorchDistribution(2).arrange(2), command, argv, None)


def plan_of(**fields) -> Plan:
    values = {"environment": {"A": "job"}, "framework": "deepspeed", "launcher": "deepspeed", **fields}
    return Plan("run-7", "t", "lab", 1_795_000_000.5, 0, node_major_layout(2, 2), ("deepspeed", "train.py"), **values)


WORLD = RendezvousResult("10.1.2.3", 29871, (Host("a", 8), Host("b", 8)))


def test_the_launcher_has_what_all_its_ranks_share_and_nothing_of_one_of_them():
    plan, paths = plan_of(), RunPaths("/runs/r")
    (process,) = find_launcher(plan.launcher).processes(NodeLaunch(plan, WORLD, plan.nodes[1], paths, {"PATH": "/bin"}))
    found = process.environment
    assert (process.ranks, process.argv) == ((2, 3), ("deepspeed", "train.py"))
    assert found["PATH"] == "/runs/r/attempt-0/launch/node-1:/bin" and found["A"] == "job"
    assert (found["WORLDSIZE_NODE_RANK"], found["NODE_RANK"], found["MASTER_PORT"]) == ("1", "1", "29871")
    assert found["WORLDSIZE_HOSTFILE"] == "/runs/r/attempt-0/hostfile"
    of_a_rank = ("RANK", "LOCAL_RANK", "WORLDSIZE_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "JAX_PROCESS_ID")
    assert not {*of_a_rank, "WORLDSIZE_ERROR_FILE", "TORCHELASTIC_ERROR_FILE", "AZUREML_PROCESS_NAME"} & set(found)


def test_even_a_single_rank_is_not_taken_for_its_launcher():
    plan = plan_of()._replace(nodes=node_major_layout(1, 1))
    (process,) = find_launcher(plan.launcher).processes(
        NodeLaunch(plan, WORLD, plan.nodes[0], RunPaths("/runs/r"), {"PATH": "/bin"})
    )
    assert not {"RANK", "SLURM_PROCID", "WORLDSIZE_ERROR_FILE"} & set(process.environment)


PRINT = "import json, os, sys; print(json.dumps(dict(os.environ))); print('err', file=sys.stderr)"


def test_what_it_starts_becomes_the_rank(tmp_path):
    plan, paths = plan_of(), RunPaths(str(tmp_path))
    os.makedirs(paths.launch_dir)
    os.makedirs(paths.logs_dir)
    ranks = list(NodeLaunch(plan, WORLD, plan.nodes[1], paths, {"PATH": "/bin", "LC_ALL": "C.UTF-8"}).ranks())
    launcher = deepspeed_environment(ranks, paths, plan.nodes[1])
    write_launch_files(ranks, launcher, paths, plan.nodes[1])
    hook = {"PYTHONPATH": os.path.dirname(os.path.abspath(SITE))}
    said = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0,1"}
    environment = {**launcher, **said, **hook}
    done = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    with open(paths.rank_log(3)) as file:
        found, err = json.loads(file.readline()), file.read()
    ours = {name: value for name, value in ranks[1].environment.items() if name != "PYTHONPATH"}
    assert {name: found[name] for name in ours} == ours and err == "err\n"
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1" and "WORLDSIZE_LAUNCH" not in found


def test_a_rank_that_the_plan_does_not_have_stays_what_it_is(tmp_path):
    environment = {"WORLDSIZE_LAUNCH": str(tmp_path), "RANK": "9", "PYTHONPATH": os.path.dirname(os.path.abspath(SITE))}
    done = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["RANK"] == "9"


def test_the_program_that_stands_for_it_tells_the_real_one_of_the_allocation(tmp_path):
    plan, paths = plan_of(), RunPaths(str(tmp_path / "run"))
    real = tmp_path / "bin"
    real.mkdir()
    (real / "deepspeed").write_text('#!/bin/sh\necho "$@"\n')
    (real / "deepspeed").chmod(0o755)
    os.makedirs(paths.launch_dir)
    ranks = list(NodeLaunch(plan, WORLD, plan.nodes[1], paths, {"PATH": "%s:/usr/bin:/bin" % real}).ranks())
    launcher = deepspeed_environment(ranks, paths, plan.nodes[1])
    write_launch_files(ranks, launcher, paths, plan.nodes[1])
    done = subprocess.run(
        ["sh", "-c", "deepspeed t.py 'a b'"], env=launcher, capture_output=True, text=True, check=True
    )
    told = "--hostfile %s --no_ssh --node_rank 1 --master_addr 10.1.2.3 --master_port 29871" % paths.hostfile
    assert done.stdout == told + " t.py a b\n"
    launcher = deepspeed_environment(ranks, paths, plan.nodes[1], "tune")
    done = subprocess.run(["sh", "-c", "deepspeed t.py"], env=launcher, capture_output=True, text=True, check=True)
    assert done.stdout == told + " --autotuning tune t.py\n"
    write_launch_files(ranks, launcher, paths, plan.nodes[1])
    assert subprocess.run(["sh", "-c", "pdsh -w a pkill -f t.py"], env=launcher).returncode == 0
    (real / "deepspeed").unlink()
    assert subprocess.run(["sh", "-c", "deepspeed t.py"], env=launcher, capture_output=True).returncode == 127


@pytest.mark.parametrize(("code", "found"), [(1, 1), (3, 3), (247, 137), (245, 139), (143, 143)])
def test_codes_of_its_ranks(code, found):
    assert rank_exit_code(code) == found


def failures(tmp_path, code: int, *failed: int):
    paths, plan = RunPaths(str(tmp_path)), plan_of()
    os.makedirs(paths.errors_dir)
    for rank in failed:
        with open(paths.rank_error(rank), "w") as file:
            file.write('{"type": "ValueError", "message": "bad", "frames": [], "time": 5, "pid": 1}')
    (tmp_path / "log").write_text("…\n[ERROR] exits with return code = -9\n")
    process = Process((2, 3), ("deepspeed",), {}, str(tmp_path / "log"), ())
    end = NodeEnd(plan, paths, 1, ["a", "b"], EndedProcess(process, code, 99.0), False)
    return find_launcher("deepspeed").failures(end)


def test_the_rank_of_this_node_that_left_an_exception_failed(tmp_path):
    (found,) = failures(tmp_path, 1, 0, 3)
    assert (found.rank, found.node_rank, found.code, found.time) == (3, 1, 1, 5.0)


def test_without_one_nobody_knows_which_rank_it_was(tmp_path):
    (found,) = failures(tmp_path, 247)
    assert (found.rank, found.node_rank, found.code, found.reason) == (None, 1, 137, "SIGNAL")
    assert "deepspeed on node 1 (b) was killed by signal 9 (SIGKILL): [ERROR] exits" in found.message
