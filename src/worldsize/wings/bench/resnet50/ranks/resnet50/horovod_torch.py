"""Measurement of ResNet-50 with Horovod's binding of PyTorch.

    python -m resnet50.horovod_torch --batch 64

The time of a step without communication is measured first, with a second network, because the hooks by which Horovod
averages gradients cannot be removed.
"""

from __future__ import annotations

import argparse
import gc
import sys

from .arguments import explain_missing, fill_in, parse_arguments

try:
    import horovod
    import horovod.torch as hvd
    import torch
except ModuleNotFoundError as error:
    raise explain_missing(error) from None

from .blocks import block_sizes, communication_share, time_blocks
from .images import remove_images
from .report import check_loss, write_report
from .torch_network import count_parameters
from .torch_training import (
    Trainer,
    choose_device,
    device_facts,
    make_batches,
    make_network,
    make_optimizer,
    prepare_device,
    software,
)

_ALONE = 3
"""The number of blocks of steps without communication."""


def slowest(seconds: list[float]) -> list[float]:
    """Return for each block of training steps the seconds of the slowest rank, on every rank. `seconds` are those of
    this rank."""
    everyone = hvd.allgather(torch.tensor([seconds], dtype=torch.float64), name="seconds")
    found: list[float] = everyone.max(dim=0).values.tolist()
    return found


def software_found() -> dict[str, str]:
    gpu = torch.cuda.is_available() and hvd.nccl_built()
    backend = "nccl" if gpu else "mpi" if hvd.mpi_enabled() else "gloo"
    found = software(backend)
    found["framework"] = f"Horovod {horovod.__version__}, {found['framework']}"
    return found


def measure_alone(arguments: argparse.Namespace, trainer: Trainer, sizes: list[int]) -> list[float]:
    trainer.warm_up(arguments.warmup)
    return slowest(time_blocks(trainer.step, trainer.synchronize, sizes))


def main() -> None:
    arguments = parse_arguments(__doc__)
    hvd.init()
    rank, ranks, local_rank = hvd.rank(), hvd.size(), hvd.local_rank()
    device = choose_device(local_rank, hvd.local_size())
    fill_in(arguments, device.type == "cuda")
    prepare_device(arguments, device)
    sizes = block_sizes(arguments.steps)
    batches = make_batches(arguments, device, (rank, ranks), local_rank)

    alone = []
    if ranks > 1:
        network = make_network(arguments, device)
        trainer = Trainer(network, make_optimizer(network), batches, device, arguments.precision)
        alone = measure_alone(arguments, trainer, sizes[:_ALONE])
        del trainer, network
        gc.collect()

    network = make_network(arguments, device)
    optimizer = make_optimizer(network)
    if ranks > 1:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
        hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    trainer = Trainer(network, optimizer, batches, device, arguments.precision)
    trainer.warm_up(arguments.warmup)
    seconds = slowest(time_blocks(trainer.step, trainer.synchronize, sizes))
    loss = trainer.loss.item()
    check_loss(loss)
    trainer.close()
    hvd.barrier()
    if arguments.data == "generated":
        remove_images(local_rank)
    if rank == 0:
        communication = communication_share(seconds, alone, sizes, sizes[:_ALONE]) if alone else 0.0
        found = {**device_facts(device, ranks), "software": software_found()}
        write_report(
            arguments, "horovod", ranks, seconds, sizes,
            loss=loss, parameters=count_parameters(network), communication=communication, **found,
        )  # fmt: skip
    hvd.shutdown()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
