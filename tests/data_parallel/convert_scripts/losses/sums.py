"""A loss that is a sum over the batch, with its mean told."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
torch.set_default_dtype(torch.float64)
train_loader = DataLoader(TensorDataset(torch.rand(40, 6)), batch_size=8, shuffle=True)
test_loader = DataLoader(TensorDataset(torch.rand(13, 6)), batch_size=8)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
        self.mu, self.logvar = nn.Linear(4, 2), nn.Linear(4, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 6), nn.Sigmoid())

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.decoder(mu), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = nn.functional.binary_cross_entropy(recon_x, x, reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(1, 3):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(train_loader):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % 2 == 0:
            print(f"Train Epoch: {epoch} Loss: {loss.item() / len(data):.8f}")
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.8f}")
    model.eval()
    with torch.no_grad():
        test_loss = sum(loss_function(*[model(x)[0], x, *model(x)[1:]]).item() for (x,) in test_loader)
    print(f"====> Test set loss: {test_loss / len(test_loader.dataset):.8f}")
