"""A root of a mean: not the mean of the roots; perplexity, told of the loss."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randint(9, (24, 5))), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
total_loss = 0.0
for (tokens,) in loader:
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item()
    print(f"loss {loss.item():.6f} ppl {math.exp(loss.item()):.6f} {torch.exp(loss).item():.6f}")
print("ppl", math.exp(total_loss / len(loader)))
