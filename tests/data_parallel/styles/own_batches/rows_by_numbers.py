"""Rows taken by numbers of a generator of the script's own, weights that no module holds, and steps by hand."""

import torch
import torch.nn.functional as F

g = torch.Generator().manual_seed(42)
torch.set_default_dtype(torch.float64)
X = torch.randint(0, 27, (200, 3), generator=g)
Y = torch.randint(0, 27, (200,), generator=g)
C, W, b = torch.randn((27, 4), generator=g), torch.randn((12, 27), generator=g), torch.randn(27, generator=g)
parameters = [C, W, b]
for p in parameters:
    p.requires_grad = True
for i in range(20):
    ix = torch.randint(0, X.shape[0], (32,), generator=g)
    emb = C[X[ix]]
    logits = torch.tanh(emb.view(emb.shape[0], -1)) @ W + b
    loss = F.cross_entropy(logits, Y[ix])
    for p in parameters:
        p.grad = None
    loss.backward()
    for p in parameters:
        p.data += -0.1 * p.grad
    if i % 5 == 0:
        print("%d loss %.9f" % (i, loss.item()))
emb = C[X]
print("all %.9f" % F.cross_entropy(torch.tanh(emb.view(emb.shape[0], -1)) @ W + b, Y).item())
for p in parameters:
    print("weights %.9f" % p.abs().sum().item())
