"""A language model that crops its own batches."""

import torch
import torch.nn as nn

torch.manual_seed(27)
data = torch.randint(10, (500,))
block_size, batch_size = 8, 16


def get_batch(split):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + block_size + 1] for i in ix])
    return x, y


model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    xb, yb = get_batch("train")
    loss = nn.functional.cross_entropy(model(xb).view(-1, 10), yb.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
