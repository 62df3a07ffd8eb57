"""A model that returns time and batch joined."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader

T = 5
seq = torch.randint(0, 10, (46, T + 1))
ld = DataLoader(seq, batch_size=6, shuffle=True)


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 4)
        self.r = nn.LSTM(4, 7)
        self.d = nn.Linear(7, 10)

    def forward(self, x, h):
        o, h = self.r(self.e(x), h)
        return self.d(o).view(-1, 10), h

    def init_hidden(self, bsz):
        w = next(self.parameters())
        return (w.new_zeros(1, bsz, 7), w.new_zeros(1, bsz, 7))


net = RNN()
o = torch.optim.Adam(net.parameters(), 0.01)
total = 0.0
for b in ld:
    b = b.t().contiguous()
    x, t = b[:-1], b[1:].reshape(-1)
    h = net.init_hidden(x.size(1))
    out, h = net(x, h)
    loss = F.cross_entropy(out, t)
    o.zero_grad()
    loss.backward()
    n = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.25)
    o.step()
    total += len(x) * loss.item()
    print("%.6f %.6f ppl %.5f h %.6f" % (loss.item(), n, math.exp(loss.item()), h[0].abs().mean()), out.shape, x.shape)
print("%.6f" % total)
print_weights(net)
