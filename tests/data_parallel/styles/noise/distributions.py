"""What torch.distributions draws: one number for all samples, numbers by each sample's own, with their gradients."""

import torch
import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights
from torch.distributions import Beta, Dirichlet, Gamma, Normal

for x, y in labelled:
    share = Beta(1.0, 1.0).sample()
    each = Beta(torch.tensor(2.0), torch.tensor(1.0)).sample((len(x), 1))
    order = torch.randperm(len(x))
    out = model(share * x + (1 - share) * x[order])
    weights = Gamma(F.softplus(out), torch.ones_like(out)).rsample()
    shares = Dirichlet(out.detach().exp()).sample()
    noise = torch.normal(out.detach(), 0.1) + torch.normal(mean=0.0, std=out.detach().abs())
    several = Normal(out, torch.ones_like(out)).rsample((5,)).mean(0)
    loss = F.cross_entropy(out + weights + noise + several, y) + 0.1 * (each * out.pow(2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("%.6f %.6f %.6f %.6f" % (loss.item(), share.item(), shares.max().item(), weights.sum().item()))
print_weights()
