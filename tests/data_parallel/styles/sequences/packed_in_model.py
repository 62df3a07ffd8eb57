"""A model that packs its sequences."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 4)
        self.r = nn.LSTM(4, 5, batch_first=True)
        self.f = nn.Linear(5, 10)

    def forward(self, x, ln):
        p = pack_padded_sequence(self.e(x), ln.cpu(), batch_first=True, enforce_sorted=False)
        o, (h, _c) = self.r(p)
        o, _ = pad_packed_sequence(o, batch_first=True)
        return self.f(o), h[-1]


words = [torch.tensor([(i * j) % 9 + 1 for j in range(1, 3 + (i * 7) % 11)]) for i in range(44)]


def collate(b):
    return pad_sequence(b, batch_first=True), torch.tensor([len(w) for w in b])


m = Net()
o = torch.optim.Adam(m.parameters(), 0.01)
for x, ln in DataLoader(words, batch_size=8, collate_fn=collate):
    lg, h = m(x, ln)
    t = x[:, : lg.size(1)]
    loss = F.cross_entropy(lg.transpose(1, 2), t, ignore_index=0)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), lg.shape, "%.6f" % h.mean().item(), ((lg.argmax(2) == t) & (t != 0)).sum().item())
print_weights(m)
