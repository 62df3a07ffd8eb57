"""Sequences packed by a list of lengths."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


def collate(b):
    b = sorted(b, key=len, reverse=True)
    return pad_sequence(b, batch_first=True), [len(w) for w in b]


words = [torch.tensor([(i * j) % 9 + 1 for j in range(1, 3 + (i * 7) % 11)]) for i in range(44)]
e = nn.Embedding(10, 4)
r = nn.GRU(4, 5, batch_first=True)
f = nn.Linear(5, 10)
ps = [*e.parameters(), *r.parameters(), *f.parameters()]
o = torch.optim.Adam(ps, 0.01)
for x, ln in DataLoader(words, batch_size=8, collate_fn=collate):
    tgt = pack_padded_sequence(x, ln, batch_first=True)[0]
    q, _ = r(pack_padded_sequence(e(x), ln, batch_first=True))
    lg = f(q.data)
    loss = F.cross_entropy(lg, tgt)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), (lg.argmax(1) == tgt).sum().item(), tgt.size(0))
print_weights(e, r, f)
