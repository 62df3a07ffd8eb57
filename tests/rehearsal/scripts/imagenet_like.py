"""One process per node that spawns one per GPU, meeting at an address that the command line gives."""

import argparse
import gc
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def worker(gpu, gpus, args):
    rank = args.rank * gpus + gpu
    dist.init_process_group(
        backend=args.dist_backend, init_method=args.dist_url, world_size=args.world_size * gpus, rank=rank
    )
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    torch.cuda.set_device(gpu)
    model.cuda(gpu)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
    device = torch.device(f"cuda:{gpu}")
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    torch.manual_seed(rank)
    for _ in range(3):
        images = torch.randn(4, 3, 8, 8).cuda(gpu, non_blocking=True)
        target = torch.randint(5, (4,)).to(device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = torch.tensor([loss.item(), images.size(0)], dtype=torch.float32, device=device)
    dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
    print(
        f"rank {rank} of {dist.get_world_size()} on {next(model.parameters()).device}: {total.tolist()[1]:g} images",
        flush=True,
    )
    del model, loss, optimizer
    gc.collect()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist-url", default="")
    parser.add_argument("--dist-backend", default="nccl")
    args = parser.parse_args()
    args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    args.dist_url = args.dist_url or f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    gpus = torch.cuda.device_count()
    mp.spawn(worker, nprocs=gpus, args=(gpus, args))


if __name__ == "__main__":
    main()
