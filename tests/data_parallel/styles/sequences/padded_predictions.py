"""Predictions of padded places."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader

words = [[(i * j) % 9 + 1 for j in range(1, 3 + (i * 7) % 11)] for i in range(44)]


def collate(b):
    return nn.utils.rnn.pad_sequence([torch.tensor(w) for w in b], batch_first=True)


e = nn.Embedding(10, 4)
fc = nn.Linear(4, 10)
ps = [*e.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for x in DataLoader(words, batch_size=8, collate_fn=collate):
    lg = fc(e(x))
    loss = F.cross_entropy(lg.reshape(-1, 10), x.reshape(-1), ignore_index=0)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), lg.argmax(-1)[0].tolist())
    for s in lg.argmax(2).cpu().numpy()[:1]:
        print(s)
print_weights(e, fc)
