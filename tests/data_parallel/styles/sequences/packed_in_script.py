"""A script that packs its sequences."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class D(Dataset):
    def __len__(self):
        return 44

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = 2 + i % 5
        return torch.randn(n, 3, generator=g), i % 3


def collate(b):
    xs, ys = zip(*b, strict=False)
    return pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]), torch.tensor(ys)


ld = DataLoader(D(), batch_size=8, shuffle=True, collate_fn=collate)
rnn = nn.GRU(3, 5, batch_first=True)
fc = nn.Linear(5, 3)
ps = [*rnn.parameters(), *fc.parameters()]
o = torch.optim.SGD(ps, 0.1)
for x, ln, y in ld:
    p = pack_padded_sequence(x, ln, batch_first=True, enforce_sorted=False)
    out, h = rnn(p)
    logits = fc(h[-1])
    loss = F.cross_entropy(logits, y)
    o.zero_grad()
    loss.backward()
    o.step()
    pad, l2 = pad_packed_sequence(out, batch_first=True)
    print(
        "%.6f" % loss.item(),
        x.shape,
        ln.max().item(),
        ln.float().mean().item(),
        "%.6f" % pad.sum().item(),
        (logits.argmax(-1) == y).float().mean().item(),
    )
print_weights(rnn, fc)
