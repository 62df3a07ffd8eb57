"""What NumPy has computed, back into the model."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    xt = torch.from_numpy(x.numpy() * 2)
    loss = F.cross_entropy(model(xt), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item())
print_weights()
