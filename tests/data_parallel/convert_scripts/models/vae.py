"""A variational autoencoder: noise is drawn on each rank, and said once."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(40)
torch.set_default_dtype(torch.float64)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=-1)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train_loader = DataLoader(TensorDataset(torch.randn(32, 6)), batch_size=8, shuffle=True)
best = None
for epoch in range(3):
    for (x,) in train_loader:
        recon, mu, logvar = model(x)
        loss = ((recon - x) ** 2).sum() - 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        noisy = sum(((model(x)[0] - x) ** 2).mean().item() for (x,) in train_loader)
    if best is not None and noisy > best:
        break
    best = noisy
print("best", best)
