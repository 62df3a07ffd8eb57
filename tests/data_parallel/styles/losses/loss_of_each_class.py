"""A loss for each class, of what a mask selects."""

import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    out = model(x)
    losses = []
    for c in range(3):
        m = y == c
        if m.sum() == 0:
            continue
        losses.append(F.cross_entropy(out[m], y[m]))
    loss = sum(losses) / len(losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item(), len(losses))
print_weights()
