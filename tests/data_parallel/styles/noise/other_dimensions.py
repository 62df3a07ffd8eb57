"""Noise whose batch does not lie in the first dimension, or is a multiple of it, or a part."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    n = len(x)
    columns = torch.rand(x.shape[1], n)
    states = torch.randn(2, n, 3)
    several = torch.randn(n * 3, 2)
    half = torch.randint(0, 9, (n // 2, 2))
    turned = torch.randn_like(x.t())
    repeated = x.repeat(3, 1)
    noisy = repeated + torch.randn_like(repeated)
    chosen = x[y > 0]
    beside = chosen + torch.randn_like(chosen)
    pairs = torch.rand(n, n)
    loss = F.cross_entropy(model(x + 0.1 * columns.t() + 0.1 * noisy.view(3, n, 6).mean(0)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f %.6f %.6f" % (loss.item(), columns.sum().item(), states[1].sum().item()), several.sum().item())
    print(half.sum().item(), "%.6f %.6f" % (turned.sum().item(), noisy.std().item()))
    print("%.6f %.6f" % (beside.sum().item(), pairs.sum().item()))
print_weights()
