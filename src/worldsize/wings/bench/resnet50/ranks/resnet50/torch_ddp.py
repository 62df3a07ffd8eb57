"""Measurement of ResNet-50 with PyTorch's DistributedDataParallel: NCCL on GPUs, gloo on CPUs.

    python -m resnet50.torch_ddp --batch 64

With one rank there is nothing to average, and the network is trained without DistributedDataParallel.
"""

from __future__ import annotations

import gc
import os
import sys

from .arguments import explain_missing, fill_in, parse_arguments

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
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


def slowest(seconds: list[float], device: torch.device) -> list[float]:
    """Return for each block of training steps the seconds of the slowest rank, on every rank. `seconds` are those of
    this rank."""
    if dist.get_world_size() == 1:
        return seconds
    times = torch.tensor(seconds, dtype=torch.float64, device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    found: list[float] = times.tolist()
    return found


def main() -> None:
    arguments = parse_arguments(__doc__)
    local_rank, local_ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    device = choose_device(local_rank, local_ranks)
    fill_in(arguments, device.type == "cuda")
    prepare_device(arguments, device)
    backend = "nccl" if device.type == "cuda" and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    network = make_network(arguments, device)
    parameters = count_parameters(network)
    if ranks > 1:
        network = DistributedDataParallel(network, device_ids=[device.index] if device.type == "cuda" else None)
    batches = make_batches(arguments, device, (rank, ranks), local_rank)
    trainer = Trainer(network, make_optimizer(network), batches, device, arguments.precision)
    trainer.warm_up(arguments.warmup)
    sizes = block_sizes(arguments.steps)
    seconds = slowest(time_blocks(trainer.step, trainer.synchronize, sizes), device)
    loss = trainer.loss.item()
    check_loss(loss)
    communication = 0.0
    if ranks > 1:
        with network.no_sync():
            alone = slowest(time_blocks(trainer.step, trainer.synchronize, sizes[:_ALONE]), device)
        communication = communication_share(seconds, alone, sizes, sizes[:_ALONE])
    trainer.close()
    dist.barrier()
    if arguments.data == "generated":
        remove_images(local_rank)
    if rank == 0:
        found = {**device_facts(device, ranks), "software": software(backend)}
        write_report(
            arguments, "torch", ranks, seconds, sizes,
            loss=loss, parameters=parameters, communication=communication, **found,
        )  # fmt: skip
    # Gloo may abort a process at the end of its group while its tensors exist, and in the interpreter's tear-down.
    del trainer, network
    gc.collect()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
