"""Predictions of an epoch, joined, and masked."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

T, outputs = [], []
for x, y in labelled:
    out = model(x)
    value = F.cross_entropy(out, y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    outputs.append(out.detach().argmax(1))
    T.append(y)
outputs = torch.cat(outputs)
T = torch.cat(T)
for c in range(3):
    print(
        c,
        "%.6f" % (outputs[c == T] == c).float().mean().item(),
        (c == T).sum().item(),
        (outputs == T)[c == T].sum().item(),
    )
print_weights()
