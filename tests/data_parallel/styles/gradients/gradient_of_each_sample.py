"""Gradients of each sample with vmap."""

import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights
from torch.func import functional_call, grad, vmap

P = {k: v.detach() for k, v in model.named_parameters()}


def f(p, x, y):
    return F.cross_entropy(functional_call(model, p, (x[None],)), y[None])


for x, y in labelled:
    g = vmap(grad(f), (None, 0, 0))(P, x, y)
    n = sum(v.flatten(1).pow(2).sum(1) for v in g.values()).sqrt()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f %.6f %.6f" % (loss.item(), n.max(), n.mean()))
print_weights()
