"""Draws by each sample's probabilities."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    pr = F.softmax(model(x), 1)
    a = torch.multinomial(pr, 1).squeeze(1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item(), a.tolist())
print_weights()
