"""The shape of a padded batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import print_weights
from torch.utils.data import DataLoader

words = [[(i * j) % 9 + 1 for j in range(1, 2 + i % 5)] for i in range(44)]


def collate(b):
    L = [len(w) for w, _ in b]
    m = max(L)
    return torch.tensor([w + [0] * (m - len(w)) for w, _ in b]), torch.tensor(L), torch.tensor([y for _, y in b])


e = nn.Embedding(10, 4, padding_idx=0)
fc = nn.Linear(4, 2)
ps = [*e.parameters(), *fc.parameters()]
o = torch.optim.Adam(ps, 0.01)
for x, ln, y in DataLoader([(w, i % 2) for i, w in enumerate(words)], batch_size=8, shuffle=True, collate_fn=collate):
    m = (x != 0).unsqueeze(-1)
    h = (e(x) * m).sum(1) / ln.unsqueeze(1)
    lg = fc(h)
    loss = F.cross_entropy(lg, y)
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f" % loss.item(), x.shape, m.sum().item(), ln.max().item(), ln.tolist(), (lg.argmax(1) == y).sum().item())
print_weights(e, fc)
