"""A language model that crops windows of numpy's memory, fetches the next batch early, and evaluates now and then."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)
data = np.random.RandomState(0).randint(0, 7, 400).astype(np.uint16)
model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
batch_size, block_size = 8, 5


def get_batch(split):
    d = data[:300] if split == "train" else data[300:]
    ix = torch.randint(len(d) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(d[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(d[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x.to("cpu"), y.to("cpu")


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.zeros(3)
    for k in range(3):
        X, Y = get_batch("val")
        losses[k] = nn.functional.cross_entropy(model(X).view(-1, 7), Y.view(-1)).item()
    model.train()
    return losses.mean()


X, Y = get_batch("train")
for step in range(8):
    if step % 4 == 0:
        print("validation %.9f" % estimate_loss())
    for _ in range(2):
        logits = model(X)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), Y.view(-1), ignore_index=-1) / 2
        X, Y = get_batch("train")
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    accuracy = (logits.argmax(-1) == 1).float().mean().item()
    print("loss %.9f accuracy %.6f size %d" % (loss.item() * 2, accuracy, X.size(0)))
for p in model.parameters():
    print("weights %.9f" % p.abs().sum().item())
