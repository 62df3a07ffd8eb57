"""Rewards of sampled actions."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

base = 0.0
for x, y in labelled:
    pr = F.softmax(model(x), 1)
    a = torch.multinomial(pr, 1).squeeze(1)
    r = (a == y).double()
    base = 0.9 * base + 0.1 * r.mean().item()
    loss = -(torch.log(pr.gather(1, a[:, None])).squeeze(1) * (r - base)).sum() / x.size(0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f %.4f" % (loss.item(), base))
print_weights()
