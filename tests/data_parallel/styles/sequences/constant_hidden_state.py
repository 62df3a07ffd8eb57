"""A hidden state whose batch size is a number in the script."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader, TensorDataset

B = 6
rnn = nn.LSTM(3, 5, batch_first=True)
fc = nn.Linear(5, 2)
S = torch.randn(42, 4, 3)
L = torch.randint(0, 2, (42,))
ps = [*rnn.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for x, y in DataLoader(TensorDataset(S, L), batch_size=B):
    h0 = torch.zeros(1, B, 5)
    out, _ = rnn(x, (h0, h0))
    value = F.cross_entropy(fc(out[:, -1, :]), y)
    o.zero_grad()
    value.backward()
    o.step()
    print("%.6f" % value.item())
print_weights(rnn, fc)
