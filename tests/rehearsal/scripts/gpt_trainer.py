"""A small language model under torchrun, trainer and snapshots as in the well-known minimal GPTs."""

import gc
import math
import os
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Config:
    vocabulary: int = 32
    block: int = 16
    layers: int = 2
    heads: int = 2
    width: int = 32


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)
        self.mlp = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width))
        self.heads = c.heads

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in self.qkv(self.ln1(x)).split(w, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
        x = x + self.out(y)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.block, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x, y):
        positions = torch.arange(x.size(1), device=x.device)
        h = self.tokens(x) + self.positions(positions)
        for block in self.blocks:
            h = block(h)
        logits = self.head(h)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


def batch(text, c, device, generator):
    starts = torch.randint(len(text) - c.block - 1, (8,), generator=generator)
    x = torch.stack([text[i : i + c.block] for i in starts])
    y = torch.stack([text[i + 1 : i + 1 + c.block] for i in starts])
    if device.startswith("cuda"):
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)


def main():
    init_process_group(backend="nccl")
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    torch.manual_seed(1337 + rank)
    dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
    kind = "cuda" if "cuda" in device else "cpu"
    context = nullcontext() if kind == "cpu" else torch.amp.autocast(device_type=kind, dtype=getattr(torch, dtype))
    scaler = torch.cuda.amp.GradScaler(enabled=dtype == "float16")
    c = Config()
    raw = GPT(c).to(device)
    optimizer = torch.optim.AdamW(raw.parameters(), lr=3e-3, betas=(0.9, 0.95), fused=False)
    model = torch.compile(raw)
    model = DDP(model, device_ids=[local_rank])
    text = torch.arange(400) % c.vocabulary
    generator = torch.Generator().manual_seed(rank)
    first = last = math.nan
    for step in range(20):
        for micro in range(2):
            model.require_backward_grad_sync = micro == 1
            x, y = batch(text, c, device, generator)
            with context:
                logits, loss = model(x, y)
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        last = loss.item() * 2
        first = last if step == 0 else first
    if rank == 0:
        free, total = torch.cuda.mem_get_info()
        assert 0 < free <= total == torch.cuda.get_device_properties(device).total_memory
        print(f"loss {first:.2f} -> {last:.2f} learned={last < first} device={logits.device}")
    del model, raw, optimizer, loss, logits
    gc.collect()
    destroy_process_group()


if __name__ == "__main__":
    main()
