"""Batches wrapped in `Variable`, as scripts did before torch 0.4."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights
from torch.autograd import Variable

right = seen = 0
for x, y in labelled:
    x, y = Variable(x), Variable(y, requires_grad=False)
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    right += out.data.max(1)[1].eq(y.data).sum().item()
    seen += y.size(0)
    print("%.6f %.6f" % (loss.item(), Variable(data=x).sum().item()), right, seen, Variable(torch.ones(3)).sum().item())
print_weights()
