"""Outputs without the first step."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader, TensorDataset

S = torch.randint(0, 7, (44, 4))
emb = nn.Embedding(7, 5)
enc = nn.GRU(5, 6)
dec = nn.GRU(5, 6)
out_ = nn.Linear(6, 7)
ps = [*emb.parameters(), *enc.parameters(), *dec.parameters(), *out_.parameters()]
o = torch.optim.Adam(ps, 0.01)


class S2S(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.ModuleList([emb, enc, dec, out_])

    def forward(self, src, trg, tf=0.5):
        B = trg.shape[1]
        T = trg.shape[0]
        outs = torch.zeros(T, B, 7)
        _, h = enc(emb(src))
        inp = trg[0, :]
        for t in range(1, T):
            q, h = dec(emb(inp.unsqueeze(0)), h)
            p = out_(q.squeeze(0))
            outs[t] = p
            inp = trg[t] if random.random() < tf else p.argmax(1)
        return outs


m = S2S()
ep = 0
for (s,) in DataLoader(TensorDataset(S), batch_size=8):
    s = s.permute(1, 0)
    out = m(s, s)
    V = out.shape[-1]
    loss = F.cross_entropy(out[1:].view(-1, V), s[1:].reshape(-1))
    o.zero_grad()
    loss.backward()
    n = nn.utils.clip_grad_norm_(m.parameters(), 1)
    o.step()
    ep += loss.item()
    print("%.6f %.6f" % (loss.item(), n), out.shape)
print_weights(m)
