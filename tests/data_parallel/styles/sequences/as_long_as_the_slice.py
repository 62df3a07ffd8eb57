"""Sequences that are as long as a slice has samples."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader, TensorDataset

S = torch.randint(0, 7, (44, 5))
emb = nn.Embedding(7, 5)
r = nn.LSTM(5, 6)
fc = nn.Linear(6, 7)
ps = [*emb.parameters(), *r.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for (s,) in DataLoader(TensorDataset(S), batch_size=8):
    s = s.t()
    T, B = s.shape
    h = (torch.zeros(1, B, 6), torch.zeros(1, B, 6))
    out, h = r(emb(s[:-1]), h)
    lg = fc(out)
    loss = F.cross_entropy(lg.reshape(-1, 7), s[1:].reshape(-1))
    o.zero_grad()
    loss.backward()
    o.step()
    print(
        "%.6f %.4f" % (loss.item(), (lg.argmax(-1) == s[1:]).float().mean()),
        lg.shape,
        T,
        B,
        "%.6f" % h[0].sum().item(),
        lg[-1].argmax(1).tolist(),
    )
print_weights(emb, r, fc)
