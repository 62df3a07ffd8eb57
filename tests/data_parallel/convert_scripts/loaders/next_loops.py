"""Steps that are counted, with an endless iterator: `next` in a while loop, and a generator."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 2)), batch_size=8, shuffle=True)


def cycle(iterable):
    while True:
        for x in iterable:
            yield x


model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
data = cycle(loader)
for step in range(6):
    x, y = next(data)
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 2 == 1:
        print(step, loss.item())
iterator = iter(loader)
step = 0
while step < 7:
    try:
        x, y = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        x, y = next(iterator)
    optimizer.zero_grad()
    output = model(x)
    loss = (output - y).abs().mean()
    loss.backward()
    optimizer.step()
    step += 1
    print(step, float(loss))
print(model.weight.sum().item())
