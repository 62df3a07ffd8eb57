"""CLIP's loss of two towers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import labelled, print_weights

enc = nn.Linear(6, 5)
o = torch.optim.SGD(enc.parameters(), 0.1)
for x, _ in labelled:
    z1, z2 = enc(x), enc(x * 0.9)
    lg = z1 @ z2.T
    labels = torch.arange(lg.shape[0])
    loss = (F.cross_entropy(lg, labels) + F.cross_entropy(lg.T, labels)) / 2
    o.zero_grad()
    loss.backward()
    o.step()
    print("%.6f %.6f" % (loss.item(), (lg.argmax(1) == labels).float().mean().item()))
print_weights(enc)
