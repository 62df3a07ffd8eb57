"""The fast gradient sign method."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    x.requires_grad_(True)
    value = F.cross_entropy(model(x), y)
    model.zero_grad()
    value.backward()
    adv = x + 0.1 * x.grad.data.sign()
    adv = torch.clamp(adv, -2, 2).detach()
    out = model(adv)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(
        "%.6f %.6f %.4f %.6f"
        % (value.item(), loss.item(), out.max(1)[1].eq(y).sum().item() / len(y), x.grad.abs().mean().item())
    )
print_weights()
