"""A batch script as a job file: it reads back, means the same, and says what it leaves out."""

from __future__ import annotations

import pytest

from worldsize.cli.importing import job_text
from worldsize.compute.slurm.options import sbatch_options
from worldsize.plan.launch import Plan
from worldsize.plan.layout import node_major
from worldsize.spec.batchimport import Imported, import_script
from worldsize.spec.batchscript import parse_script
from worldsize.spec.batchsize import asked
from worldsize.spec.distribution import PlainDistribution, PyTorchDistribution
from worldsize.spec.job import Job
from worldsize.spec.jobfile import parse_job

DDP = """#!/bin/bash -l
#SBATCH --job-name=ddp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:a100:2
#SBATCH --cpus-per-task=4
#SBATCH --time=00:10:00
#SBATCH --signal=B:USR1@120
#SBATCH --output=%x.out
#SBATCH --mail-type=END --no-requeue --exclusive -p gpu,long
module purge
module load cuda/12.1 gcc
source venv/bin/activate
export MASTER_PORT=12355 NCCL_DEBUG=INFO
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
export MASTER_ADDR=${nodes[0]}
LR=0.1
DATA="my data"
export STAMP=$(date)
if [ -n "$X" ]; then echo no; mkdir y; fi
mkdir -p out
echo starting
cd src
srun --cpu-bind=cores python -u train.py --lr $LR --data "$DATA" 'it''s' > log.txt
cp -r out /elsewhere
"""


def imported(text: str) -> Imported:
    script = parse_script(text, "job.slurm")
    return import_script(script, asked(script, "job.slurm"), "job.slurm")


def again(found: Imported) -> Job:
    """As the written file reads."""
    return parse_job(job_text(found, "job.slurm"), "job.yml").job


def test_a_tutorial_script() -> None:
    found = imported(DDP)
    job = again(found)
    assert job.command == 'cd src && python -u train.py --lr $LR --data "$DATA" its'
    assert job.distribution == PyTorchDistribution(2) and job.resources.instance_count == 2
    assert job.environment_variables == {"NCCL_DEBUG": "INFO", "LR": "0.1", "DATA": "my data"}
    assert job.modules == ("cuda/12.1", "gcc")
    assert job.setup == ("source venv/bin/activate", "export STAMP=$(date)", "mkdir -p out")
    assert job.slurm == {
        "gpus_per_node": "a100:2",
        "time": "00:10:00",
        "signal": "USR1@120",
        "requeue": False,
        "exclusive": "true",
        "partition": "gpu,long",
        "cpus_per_rank": 4,
        "sbatch_options": {"mail-type": "END"},
    }
    said = "\n".join(found.left_out)
    reasons = ["line 9: --output", "line 14: MASTER_PORT", "WORLD_SIZE", "nodes=(", "MASTER_ADDR", "line 21: mkdir y"]
    for words in [*reasons, "cp -r out /elsewhere", "--signal=B:USR1@120"]:
        assert words in said


def test_its_options_are_ones_that_slurm_computes_take() -> None:
    job = again(imported(DDP))
    plan = Plan("r", "n", "slurm", 0.0, 0, node_major(2, 2), ("x",), {})
    options = dict(sbatch_options(job.slurm, plan))
    assert (options["gpus-per-node"], options["cpus-per-task"], options["mail-type"]) == ("a100:2", "4", "END")


def test_torchrun_becomes_a_launcher() -> None:
    job = again(
        imported(
            "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 -c 8 --gpus-per-node=4\n"
            "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_backend c10d"
            " --rdzv_endpoint $HEAD:29500 train.py --epochs $E\n"
        )
    )
    assert job.distribution == PyTorchDistribution(4, "torchrun")
    assert (job.command, job.slurm["cpus_per_rank"]) == ("python train.py --epochs $E", 2)


@pytest.mark.parametrize(
    ("line", "command", "distribution"),
    [
        ("srun ./a.out 1 2", "./a.out 1 2", PlainDistribution(2)),
        ("srun -N1 -n1 prepare\nsrun train", "train", PlainDistribution(2)),
        ("srun -N1 -n4 ./wide", "./wide", PlainDistribution(4)),
        ("srun bash -c 'echo $SLURM_PROCID; ./run'", "echo $SLURM_PROCID; ./run", PlainDistribution(2)),
        ("mpirun ./a.out", "mpirun ./a.out", PlainDistribution(2)),
        ("python train.py", "python train.py", PlainDistribution(1)),
        ("srun torchrun --standalone -m pkg.train --x", "python -m pkg.train --x", PyTorchDistribution(1, "torchrun")),
        ("echo nothing", "true", PlainDistribution(2)),
    ],
)
def test_what_ranks_execute(line: str, command: str, distribution: object) -> None:
    job = again(imported("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2\n%s\n" % line))
    assert (job.command, job.distribution) == (command, distribution)


def test_an_array_becomes_a_matrix() -> None:
    job = again(imported("#!/bin/bash\n#SBATCH -a 3,5%1\nsrun ./a ${SLURM_ARRAY_TASK_ID} $SLURM_ARRAY_TASK_ID\n"))
    assert job.command == "./a ${{inputs.array_task}} ${{inputs.array_task}}"
    assert (job.matrix, job.at_once) == ({"array_task": (3, 5)}, 1)
