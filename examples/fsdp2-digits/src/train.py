"""Recognise handwritten digits with a model that no rank holds whole: FSDP2, and tensor parallelism beside it.

    worldsize run examples/fsdp2-digits/job.yml -w 2x2
    worldsize run examples/tensor-parallel-digits/job.yml -w 2x2
    worldsize run examples/fsdp2-digits/job.yml -w 1x2 --set inputs.resume=RUN_DIR/outputs --set inputs.epochs=8

`--tensor-parallel N` splits each layer over N neighbouring ranks; over the others the model is sharded. The batch size
counts all ranks together, so that the result is nearly the same on any number of them. Every epoch ends with a
checkpoint in ./outputs/checkpoints, which each rank writes its part of, and which any world size can resume from.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

SEED = 1
HELD_BACK = 360
BATCH = 64
CHECKPOINTS = os.path.join("outputs", "checkpoints")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.last = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(images))).clone()  # tensor parallelism gives a view, which FSDP minds


def build_model(device: torch.device, mesh: DeviceMesh) -> nn.Module:
    """Whole on every rank at first, and equal; then split over `tensor`, and sharded over `data`."""
    torch.manual_seed(SEED)
    model = Model().to(device)
    if mesh["tensor"].size() > 1:
        parallelize_module(model, mesh["tensor"], {"first": ColwiseParallel(), "last": RowwiseParallel()})
    return fully_shard(model, mesh=mesh["data"])


class Progress:
    """What is saved: the model and its optimizer, each rank its part, and the number of epochs done."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.epoch = 0

    def state_dict(self) -> dict[str, object]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "epoch": torch.tensor(self.epoch)}

    def load_state_dict(self, state: dict[str, object]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.epoch = int(state["epoch"])

    def save(self) -> None:
        dcp.save({"progress": self}, checkpoint_id=os.path.join(CHECKPOINTS, "epoch-%03d" % self.epoch))

    def resume(self, directory: str) -> None:
        """From the last one that is whole: its metadata are written when all ranks have written their parts."""
        names = sorted(os.listdir(directory), reverse=True)
        whole = [name for name in names if os.path.exists(os.path.join(directory, name, ".metadata"))]
        dcp.load({"progress": self}, checkpoint_id=os.path.join(directory, whole[0]))


def load_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All images (64 values, 0 to 1) and their digits, in one order on every rank; the last HELD_BACK are the test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(SEED))
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    return images[order].to(device), torch.tensor(digits.target)[order].to(device)


def accuracy(model: nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    """Every rank takes part, since none has the model; all have the answer."""
    with torch.no_grad():
        return (model(images).argmax(dim=1) == digits).float().mean().item()


def train(arguments: argparse.Namespace, device: torch.device) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    shape = (world_size // arguments.tensor_parallel, arguments.tensor_parallel)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "tensor"))
    part, parts = mesh["data"].get_local_rank(), mesh["data"].size()
    images, digits = load_data(device)
    count = len(digits) - HELD_BACK
    model = build_model(device, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    progress = Progress(model, optimizer)
    if arguments.resume:
        progress.resume(arguments.resume)
        before = accuracy(model, images[count:], digits[count:])
        if rank == 0:
            print("resumed after epoch %d, accuracy %.4f" % (progress.epoch, before), flush=True)
    for epoch in range(progress.epoch + 1, arguments.epochs + 1):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED + epoch)).to(device)
        total = torch.zeros(1, device=device)
        for first in range(0, count - BATCH + 1, BATCH):
            mine = order[first + part : first + BATCH : parts]
            loss = nn.functional.cross_entropy(model(images[mine]), digits[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        progress.epoch = epoch
        progress.save()
        if rank == 0:
            mean = total.item() / (count // BATCH) / world_size
            print("epoch %2d/%d  loss=%.4f" % (epoch, arguments.epochs, mean), flush=True)
    return accuracy(model, images[count:], digits[count:])


def main() -> None:
    parser = argparse.ArgumentParser(description="train on scikit-learn's digits with a sharded model")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--tensor-parallel", type=int, default=1, help="ranks that share a layer")
    parser.add_argument("--resume", help="a directory of checkpoints, of any world size")
    arguments = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    result = train(arguments, device)
    if dist.get_rank() == 0:
        print("accuracy=%.4f" % result, flush=True)
    # As in examples/digits: a process whose work is done may still be aborted by gloo.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
