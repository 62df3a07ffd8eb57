"""Scripts that leave the choice of their GPU to torch, as the guides to device meshes do, each by its name."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.dropout(torch.relu(self.up(self.norm(x))), 0.1, self.training))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.norm, self.out = nn.Embedding(32, 16), nn.LayerNorm(16), nn.Linear(16, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def train(model, seed):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(seed)
    x = torch.randint(32, (4, 8), device="cuda")
    losses = []
    for _ in range(5):
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    weight = model.out.weight
    whole = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
    places = (x.device, loss.device, weight.device, whole.device)
    on = " ".join(sorted({str(place) for place in places}))
    print("learned=%s current=%d on %s" % (losses[-1] < losses[0], torch.cuda.current_device(), on))


def fully_sharded():
    """No mesh, no process group, no device: fully_shard sees to all of them."""
    torch.manual_seed(0)
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    train(model, dist.get_rank())


def hybrid():
    """Sharded within a node, replicated between nodes, built on the meta device."""
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
    with torch.device("meta"):
        model = Model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cuda")
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    train(model, dist.get_rank())


def tensor_parallel():
    """Tensor and sequence parallel within a node, fully sharded between nodes; the model comes from the CPU."""
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = Model()
    outer = {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh["tp"], outer)
    for block in model.blocks:
        inner = {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(block, mesh["tp"], inner)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    train(model, mesh["dp"].get_local_rank())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    dist.destroy_process_group()
