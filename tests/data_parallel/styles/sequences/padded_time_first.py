"""Sequences padded with time first."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader

words = [[(i * j) % 9 + 1 for j in range(1, 3 + (i * 7) % 11)] for i in range(44)]


def collate(b):
    return nn.utils.rnn.pad_sequence([torch.tensor(w) for w in b], padding_value=0), nn.utils.rnn.pad_sequence(
        [torch.tensor(w[::-1]) for w in b], padding_value=0
    )


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 4)
        self.r = nn.GRU(4, 5)
        self.f = nn.Linear(5, 10)

    def forward(self, x):
        return self.f(self.r(self.e(x))[0])


m = M()
o = torch.optim.Adam(m.parameters(), 0.01)
tot = 0
for src, tgt in DataLoader(words, batch_size=8, collate_fn=collate):
    lg = m(src)
    loss = F.cross_entropy(lg.reshape(-1, lg.shape[-1]), tgt.reshape(-1), ignore_index=0)
    o.zero_grad()
    loss.backward()
    o.step()
    tot += loss.item()
    k = tgt != 0
    print("%.6f" % loss.item(), ((lg.argmax(-1) == tgt) & k).sum().item(), k.sum().item())
print_weights(m)
