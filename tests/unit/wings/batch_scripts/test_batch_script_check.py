"""What a batch script says of its ranks against its allocation: contradictions are told, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.wings.batch_scripts.preflight import check as check_batch
from worldsize.wings.batch_scripts.script.check import check_script, max_tasks_per_node, script_launches
from worldsize.wings.batch_scripts.script.job import load_script
from worldsize.wings.batch_scripts.script.parse import Remark, parse_script
from worldsize.wings.batch_scripts.script.size import parse_allocation_request


def findings(options: str, *body: str) -> list[Remark]:
    """Line 2 holds the options, the body begins in line 3."""
    script = parse_script("\n".join(["#!/bin/bash", "#SBATCH " + options, *body, ""]), "job.slurm")
    return check_script(script, parse_allocation_request(script, "job.slurm"))


TWO_BY_FOUR = "-N 2 --ntasks-per-node=4"
ONE_EACH = "-N 2 --ntasks-per-node=1 --gpus-per-node=4"


@pytest.mark.parametrize(
    ("options", "body", "line", "what", "hint"),
    [
        (TWO_BY_FOUR, ["export WORLD_SIZE=16", "srun python a.py"], 3, "16, but line 4 starts 8", "NTASKS"),
        (TWO_BY_FOUR, ["export WORLD_SIZE=$((SLURM_NNODES*2))", "srun python a.py"], 3, "WORLD_SIZE is 4", "NTASKS"),
        ("-N 1 -n 4", ["export WORLD_SIZE=8", "srun -n 2 python a.py"], 3, "starts 2 processes", "NTASKS"),
        (TWO_BY_FOUR, ["export MASTER_ADDR=localhost", "srun python a.py"], 3, "each would wait", "scontrol"),
        (TWO_BY_FOUR, ["A=127.0.0.1", "export MASTER_ADDR=$A", "srun python a.py"], 4, "is 127.0.0.1", "scontrol"),
        (TWO_BY_FOUR, ["export RANK=$SLURM_PROCID", "srun python a.py"], 3, "RANK is 0 for all 8 tasks", "bash -c"),
        (TWO_BY_FOUR, ["export LOCAL_RANK=$SLURM_LOCALID", "srun python a.py"], 3, "LOCAL_RANK is 0", "SLURM_LOCALID"),
        (TWO_BY_FOUR, ["srun torchrun --nnodes=2 --nproc_per_node=4 a.py"], 3, "it 8 times", "ntasks-per-node"),
        (ONE_EACH, ["torchrun --nnodes=2 --nproc-per-node 4 a.py"], 3, "runs on the first one alone", "srun"),
        (ONE_EACH, ["srun torchrun --nnodes 4 --nproc_per_node 4 a.py"], 3, "=4, but srun starts it 2", "NNODES"),
        (ONE_EACH, ["srun torchrun --nnodes 2 --nproc_per_node=8 a.py"], 3, "but each node has 4", "=4"),
        (ONE_EACH, ["srun python -m torch.distributed.run --nnodes=3 a.py"], 3, "--nnodes=3", "NNODES"),
        (
            ONE_EACH,
            ["srun torchrun --nnodes 2 --node_rank=$SLURM_NODEID --nproc_per_node=4 a.py"],
            3,
            "every node's torchrun gets --node_rank=0",
            "c10d",
        ),
        (ONE_EACH, ["srun torchrun --standalone --nproc_per_node=4 a.py"], 3, "srun starts it 2 times", ""),
        (TWO_BY_FOUR, ["mpirun -np 16 ./a.out"], 3, "mpirun -np 16, but the allocation has 8 tasks", "-np"),
        ("-N 2", ["srun -N 4 python a.py"], 3, "Only allocated 2 nodes asked for 4", ""),
        (TWO_BY_FOUR, ["WORLD_SIZE=16 srun python a.py"], 3, "WORLD_SIZE is 16", "NTASKS"),
        (TWO_BY_FOUR, ["export WORLD_SIZE=4", "srun bash -c 'python a.py'"], 3, "WORLD_SIZE is 4", "NTASKS"),
    ],
)  # fmt: skip
def test_contradictions_are_told(options: str, body: list[str], line: int, what: str, hint: str) -> None:
    (found,) = findings(options, *body)
    assert found.line == line and what in found.what and hint in (found.hint or "")


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (TWO_BY_FOUR, ["export WORLD_SIZE=8", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=$SLURM_NTASKS", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=8", "srun -n1 python download.py", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=$(echo 16)", "srun python a.py"]),
        (TWO_BY_FOUR, ["if [ $X ]; then export WORLD_SIZE=16; fi", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=16", "source sizes.sh", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=16", "export WORLD_SIZE=8", "srun python a.py"]),
        (TWO_BY_FOUR, ["export WORLD_SIZE=16", "srun hostname"]),
        (TWO_BY_FOUR, ["WORLD_SIZE=16", "srun python a.py"]),
        (TWO_BY_FOUR, ["cat <<EOF > conf", "export WORLD_SIZE=16", "EOF", "srun python a.py"]),
        (TWO_BY_FOUR, ["# export WORLD_SIZE=16", "srun python a.py"]),
        (TWO_BY_FOUR, ["srun bash -c 'export RANK=$SLURM_PROCID; python a.py'"]),
        (TWO_BY_FOUR, ['export MASTER_ADDR=$(scontrol show hostnames "$X" | head -n 1)', "srun python a.py"]),
        (TWO_BY_FOUR, ["export MASTER_ADDR=localhost", "srun hostname", "srun -N1 -n4 python a.py"]),
        ("-n 4", ["export MASTER_ADDR=localhost", "srun python a.py"]),
        (ONE_EACH, ["export WORLD_SIZE=8", "srun torchrun --nnodes=2 --nproc_per_node=4 a.py"]),
        (ONE_EACH, ["srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=gpu a.py --nnodes=7"]),
        (ONE_EACH, ["srun torchrun --nnodes=1:2 a.py"]),
        (ONE_EACH, ["srun torchrun --nnodes 2 --node_rank=$SLURM_NODEID --rdzv_backend=c10d a.py"]),
        (ONE_EACH, ["srun bash -c 'torchrun --nnodes 2 --node_rank=$SLURM_NODEID a.py'"]),
        (ONE_EACH, ["for n in a b; do srun -w $n -N1 -n1 torchrun --nnodes=2 a.py & done", "wait"]),
        (TWO_BY_FOUR, ["mpirun ./a.out", "mpirun -np $SLURM_NTASKS ./a.out", "mpirun -np 4 ./a.out"]),
        ("-n 4", ["X=$((${SLURM_NTASKS_PER_NODE:-1} * 2))", "srun python a.py"]),
        ("-n 4", ["srun -n $TASKS python a.py"]),
        ("-n 4", ["if [ $X ]; then mpirun -np 8 ./a.out; fi"]),
        ("-n 4", ["export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))", "srun python a.py"]),
        ("-n 4", ["unused() { echo $((SLURM_NTASKS_PER_NODE * 2)); }", "srun python a.py"]),
    ],
)  # fmt: skip
def test_what_is_right_or_unknown_is_left_alone(options: str, body: list[str]) -> None:
    assert findings(options, *body) == []


def test_one_process_for_many_tasks_is_noticed() -> None:
    (found,) = findings("-n 4", "python train.py")
    assert found.line == 3 and "one process on the first node" in found.what


def test_gpus_may_be_shared() -> None:
    text = "#!/bin/bash\n#SBATCH --gpus-per-node=1\nsrun torchrun --standalone --nproc_per_node=2 a.py\n"
    script = parse_script(text, "job.slurm")
    size = parse_allocation_request(script, "job.slurm")
    assert check_script(script, size) and not check_script(script, size, share_gpus=True)


@pytest.mark.parametrize(
    ("options", "line", "most"),
    [("-N2 -c 8", "srun --ntasks-per-node=4 python a.py", 4), ("-n 4", "srun -n 1 python a.py", 4), ("-n 4", "x", 4)],
)
def test_ranks_of_a_run_are_those_of_its_largest_step(options: str, line: str, most: int) -> None:
    script = parse_script("#!/bin/bash\n#SBATCH %s\n%s\n" % (options, line), "job.slurm")
    size = parse_allocation_request(script, "job.slurm")
    assert max_tasks_per_node(script_launches(script, size), size) == most


def missing(tmp_path: Path, *body: str, interpreter: str = "/bin/bash") -> list[int]:
    """The lines that name a program that is not there."""
    path = tmp_path / "job.slurm"
    path.write_text("\n".join(["#!" + interpreter, *body, ""]))
    job = load_script(str(path), str(tmp_path)).job
    found = check_batch(job, Plan("-", "x", "local", 0.0, 0, node_major_layout(1, 1), ("true",), {}))
    return [int((each.where or "").rpartition(":")[2]) for each in found if "script not found" in each.what]


@pytest.mark.heavy
def test_a_script_of_many_lines(tmp_path: Path) -> None:
    """Found by review: from each line on, all that follow were read. The time limit of every test is the bound."""
    assert missing(tmp_path, *[""] * 400_000, interpreter="/usr/bin/python3") == []
    assert missing(tmp_path, *[""] * 20_000, "python gone.py") == [20_002]


def test_programs_of_a_script_that_changes_directory(tmp_path: Path) -> None:
    assert missing(tmp_path, "# cd there", "echo # cd there", "python gone.py") == [4]
    assert missing(tmp_path, "python gone.py", "true && cd there # now") == []
    assert missing(tmp_path, "pushd there", "python gone.py") == []


@pytest.mark.parametrize(
    "body",
    [
        ["CMD='python -u train.py'", 'srun $SRUN_ARGS bash -c "$CMD"'],
        ["srun python $WHERE/train.py"],
        ["srun $PREFIX python train.py"],
        ["cat >train.py <<END", "print(1)", "END", "srun python train.py"],
        ["git clone there .", "srun python train.py"],
        ["python make.py >train.py", "srun python train.py"],
        ["if [ -e train.py ]; then srun python train.py; fi"],
        ["srun python -c 'import a; a.py'"],
    ],
)
def test_programs_that_may_be_there_when_their_line_comes(tmp_path: Path, body: list[str]) -> None:
    (tmp_path / "make.py").write_text("")
    assert missing(tmp_path, *body) == []
