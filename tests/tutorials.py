"""Batch scripts as universities' and PyTorch's tutorials have them, and the programs that they start."""

from __future__ import annotations

DDP = """\
#!/bin/bash
#SBATCH --job-name=ddp-torch     # create a short name for your job
#SBATCH --nodes=2                # node count
#SBATCH --ntasks-per-node=2      # total number of tasks per node
#SBATCH --cpus-per-task=1        # cpu-cores per task (>1 if multi-threaded tasks)
#SBATCH --mem=400M               # total memory per node
#SBATCH --time=00:05:00          # total run time limit (HH:MM:SS)

export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
echo "WORLD_SIZE="$WORLD_SIZE

master_addr=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$master_addr
echo "MASTER_ADDR="$MASTER_ADDR

module purge
module load anaconda3/2021.11

conda activate torch-env

srun python train.py --epochs=3
"""

TRAIN = """\
import argparse, os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--fail", type=int, default=-1)
given = parser.parse_args()
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["WORLD_SIZE"])
print("Hello from rank %d of %d on %s" % (rank, world, os.environ["SLURMD_NODENAME"]), flush=True)
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=world)
if rank == 0:
    print("Group initialized? %s" % dist.is_initialized(), flush=True)
torch.manual_seed(rank)
model = DDP(torch.nn.Linear(4, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(given.epochs * 20):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == given.fail:
        raise ValueError("no such sample: 17")
weights = model.module.weight.detach().clone()
same = [torch.zeros_like(weights) for _ in range(world)]
dist.all_gather(same, weights)
assert all(torch.equal(weights, other) for other in same)
print("trained=%s" % bool((weights - 1).abs().max() < 0.2), flush=True)
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)
"""

TORCHRUN = """\
#!/bin/bash

#SBATCH --job-name=multinode-example
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=2

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)

echo Node IP: $head_node_ip
export LOGLEVEL=WARNING

srun torchrun \\
--nnodes 2 \\
--nproc_per_node 2 \\
--rdzv_id $RANDOM \\
--rdzv_backend c10d \\
--rdzv_endpoint $head_node_ip:29507 \\
multinode.py 5
"""

MULTINODE = """\
import os, sys
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(os.environ["RANK"])])
dist.all_reduce(total)
place = (os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["SLURM_NODEID"], total.item(), sys.argv[1])
print("rank %s local %s node %s sum %g epochs %s" % place, flush=True)
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)
"""

HELLO = """\
#!/bin/bash -l
#SBATCH -J hello
#SBATCH -N 2
#SBATCH --ntasks-per-node=2
#SBATCH --array=2-6:2%2
#SBATCH -t 5
#SBATCH -o hello_%A_%a.out
#SBATCH -e hello_%A_%a.err

set -e
cd $SLURM_SUBMIT_DIR
module load openmpi
echo "Array task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT ($SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX)"
srun bash -c 'echo "Hello world from processor $SLURMD_NODENAME, rank $SLURM_PROCID out of $SLURM_NTASKS processors"'
"""

TARA = """\
#!/bin/bash
#SBATCH -J mnist-ddp
#SBATCH -N %(nodes)d                      # node count
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH -t 02:00:00

export MASTER_PORT=15347
export WORLD_SIZE=%(ranks)d
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export OMP_NUM_THREADS=1
echo "WORLD_SIZE="$WORLD_SIZE "MASTER_PORT="$MASTER_PORT "MASTER_ADDR="$MASTER_ADDR

srun python DDP.py --data %(data)s --epochs %(epochs)d --batch-size 64
"""
"""Both scripts of the tutorial: `-N 1` with 8 ranks and `-N 2` with 16, on nodes of 8 GPUs."""

TARA_DDP = """\
import gc, os, socket, sys
import torch, torch.distributed as dist
import train

rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["WORLD_SIZE"])
gpus_per_node, host = int(os.environ["SLURM_GPUS_ON_NODE"]), socket.gethostname()
print("Hello from rank %d of %d on %s where there are %d allocated GPUs per node."
      % (rank, world_size, host, gpus_per_node), flush=True)
dist.init_process_group("gloo", rank=rank, world_size=world_size)
if rank == 0:
    print("Group initialized? %s" % dist.is_initialized(), flush=True)
local_rank = rank - gpus_per_node * (rank // gpus_per_node)
print("host: %s, rank: %d, local_rank: %d" % (host, rank, local_rank), flush=True)
train.train(train.parse_arguments(), torch.device("cpu"))
gc.collect()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)
"""
"""The tutorial's DDP.py around the network, the arguments and the lines of examples/mnist; its GPUs are none here."""
