"""Noise that models draw: for each place of a sequence, time first, for several samples of each, by probabilities."""

import torch
import torch.nn.functional as F
from small_data import print_weights
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X = torch.randn(20, 5, 6)
loader = DataLoader(TensorDataset(X, torch.randint(0, 3, (20,))), batch_size=8, shuffle=True)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        places = self.body(x.reshape(-1, 6))
        places = F.gumbel_softmax(places + torch.randn_like(places)).view(x.shape)
        times = x.transpose(0, 1)
        states = torch.randn(times.size(0), times.size(1), 6) + torch.rand_like(times)
        h = places + states.transpose(0, 1)
        several = h.mean(1) + torch.distributions.Normal(h.mean(1), torch.ones_like(h[:, 0])).rsample((3,)).mean(0)
        kept = torch.bernoulli(torch.sigmoid(h[:, 0]))
        places = torch.multinomial(torch.softmax(h[:, 1], 1), 1)
        shifted = torch.normal(h[:, 2].detach(), 0.5)
        return self.head(several * kept.detach() + h[:, 3].gather(1, places) + shifted)


model = Noisy()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("%.6f" % loss.item())
    with torch.no_grad():  # the last batch again, after its loop
        print("%.6f" % model(x).sum().item(), torch.randn_like(x).sum().item())
print_weights(model)
