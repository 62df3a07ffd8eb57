"""DDP as cluster guides teach it: device by local rank, nccl, sampler, AMP, gradient scaler, checkpoint, resume."""

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4)
        )
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        assert x.is_cuda and x.device == self.head.weight.device
        return self.head(self.features(x).flatten(1))


def loader(rank, world):
    torch.manual_seed(0)
    images = torch.randn(128, 1, 8, 8)
    labels = (images.mean((1, 2, 3)) > 0).long()
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True)
    return DataLoader(data, batch_size=8, sampler=sampler, num_workers=1, pin_memory=True, drop_last=True), sampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    assert torch.cuda.is_available(), "needs GPUs"
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group(backend="nccl", init_method="env://", device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.cuda.manual_seed_all(17)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).to(device)
    model = DDP(model, device_ids=[local_rank], output_device=local_rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss().cuda(local_rank)
    batches, sampler = loader(rank, world)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    losses = []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        start.record()
        for images, labels in batches:
            images, labels = images.to(device, non_blocking=True), labels.cuda(non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = criterion(model(images), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        end.record()
        torch.cuda.synchronize()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        assert start.elapsed_time(end) > 0 and torch.cuda.max_memory_allocated() > 0
        if rank == 0:
            torch.save(
                {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scaler": scaler.state_dict(),
                    "epoch": epoch,
                },
                "outputs/last.pt",
            )
        dist.barrier(device_ids=[local_rank])
        saved = torch.load("outputs/last.pt", map_location=f"cuda:{local_rank}")
        assert saved["model"]["head.weight"].device == device
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    print(f"backend={dist.get_backend()} gpus={torch.cuda.device_count()} losses={losses}")
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    gathered = [torch.empty_like(weights) for _ in range(world)]
    dist.all_gather(gathered, weights)
    print("equal", all(torch.equal(gathered[0], each) for each in gathered), weights.device)
    del model, optimizer, loss
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
