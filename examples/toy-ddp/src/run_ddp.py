"""Train a toy model with DistributedDataParallel; started by torchrun, once per node.

The shape of HPC Pack's guide: the model (neural_network.py), what is done with it (operations.py) and this file to run
it stand apart, and the command of the job is a torchrun line of its own, the same on every node.

    worldsize run examples/toy-ddp/job.yml                                    from the start
    worldsize run examples/toy-ddp/job.yml --set inputs.epochs=40 \\
        --set inputs.resume=/path/to/an/earlier/run/outputs                   go on from its checkpoint

A checkpoint goes to ./outputs every few epochs; one that is found there (after a restart), or where --resume says, is
taken up. Prints `resumed from epoch N`, a line per epoch, and `final loss=…`.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from neural_network import build_network, make_samples
from operations import load_checkpoint, save_checkpoint, train_epoch
from torch.nn.parallel import DistributedDataParallel

OUTPUTS = "./outputs"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="a toy model, trained on all ranks")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5, help="epochs between checkpoints")
    parser.add_argument("--batch-size", type=int, default=32, help="samples per step and rank")
    parser.add_argument("--resume", default=OUTPUTS, help="folder of the checkpoint to go on from")
    return parser.parse_args()


def choose_device() -> torch.device:
    """This rank's own GPU, counted within its node, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(build_network().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    points, targets = make_samples(2048, seed=1)
    samples = (points.to(device), targets.to(device))
    first = dist.get_rank() == 0
    done = load_checkpoint(arguments.resume, model, optimizer, device)
    if done is None and os.path.realpath(arguments.resume) != os.path.realpath(OUTPUTS):
        sys.exit("no checkpoint in %s" % arguments.resume)
    if done is not None and first:
        print("resumed from epoch %d" % done, flush=True)
    loss = float("nan")
    for epoch in range((done or 0) + 1, arguments.epochs + 1):
        loss = train_epoch(model, optimizer, samples, arguments.batch_size, epoch)
        if first:
            print("epoch %d/%d loss=%.5f" % (epoch, arguments.epochs, loss), flush=True)
        if first and (epoch % arguments.save_every == 0 or epoch == arguments.epochs):
            save_checkpoint(OUTPUTS, model, optimizer, epoch)
    if first:
        print("final loss=%.5f" % loss, flush=True)


def main() -> None:
    arguments = parse_arguments()
    device = choose_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(arguments, device)
    # A process whose work is done may still be aborted by gloo: at the group's end while the model or a tensor of it is
    # alive, so collect them first; and, rarely, in the interpreter's tear-down, so leave without it.
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
