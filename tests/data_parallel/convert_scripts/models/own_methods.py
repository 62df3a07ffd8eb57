"""A model with methods and attributes of its own, used after the training; DataParallel, EMA, a frozen part."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(22)
torch.set_default_dtype(torch.float64)
VOCABULARY, BLOCK = 11, 6


class Head(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(8, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(BLOCK, BLOCK)))

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * C**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 8)
        self.positions = nn.Embedding(BLOCK, 8)
        self.heads = nn.ModuleList([Head(4) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, VOCABULARY)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        x = self.tokens(idx) + self.positions(torch.arange(T, device=idx.device))
        x = x + torch.cat([h(x) for h in self.heads], dim=-1)
        logits = self.out(self.norm(x))
        if targets is None:
            loss = None
        else:
            B, T, C = logits.shape
            logits = logits.view(B * T, C)
            targets = targets.view(B * T)
            loss = F.cross_entropy(logits, targets)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count):
        for _ in range(count):
            logits, _ = self(idx[:, -BLOCK:])
            probs = F.softmax(logits[:, -1, :], dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


text = torch.randint(VOCABULARY, (40, BLOCK + 1))
loader = DataLoader(TensorDataset(text[:, :-1], text[:, 1:]), batch_size=8, shuffle=True, drop_last=True)
model = Language()
ema = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    for xb, yb in loader:
        logits, loss = model(xb, yb)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(ema.parameters(), model.parameters()):
                mine.mul_(0.9).add_(theirs, alpha=0.1)
    print("loss", loss.item())
print(model.generate(torch.zeros(1, 1, dtype=torch.long), 12).tolist())
print(ema(text[:2, :-1])[0].sum().item())
