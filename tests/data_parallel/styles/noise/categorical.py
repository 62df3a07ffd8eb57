"""Actions of a categorical distribution."""

import torch
from small_data import labelled, model, optimizer, print_weights

for x, _y in labelled:
    d = torch.distributions.Categorical(logits=model(x))
    a = d.sample()
    loss = -(d.log_prob(a)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f" % loss.item(), a.tolist())
print_weights()
