"""A language model that crops its own windows, with the one line that shares each batch out."""

import numpy as np
import torch
from torch import nn

import worldsize

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)
data = torch.from_numpy(np.random.RandomState(0).randint(0, 7, 200))
model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def get_batch(size=8, length=5):
    starts = torch.randint(len(data) - length, (size,))
    x = torch.stack([data[start : start + length] for start in starts])
    y = torch.stack([data[start + 1 : start + 1 + length] for start in starts])
    x, y = worldsize.shard(x, y)
    return x, y


@torch.no_grad()
def evaluate():
    x, y = get_batch()
    print("test %d %.17g" % (len(x), nn.functional.cross_entropy(model(x).view(-1, 7), y.view(-1)).item()))


x, y = get_batch()
for _step in range(12):
    for _ in range(2):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, 7), y.view(-1), ignore_index=-1) / 2
        loss.backward()
        print("loss %.17g" % loss.item())
        x, y = get_batch()
    optimizer.step()
    optimizer.zero_grad()
    if _step % 5 == 0:
        evaluate()
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
