"""A variational autoencoder in the public example's manner: a loss that is a sum, noise drawn for the batch."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(TensorDataset(torch.rand(64, 1, 4, 4)), batch_size=16, shuffle=True)
test_loader = DataLoader(TensorDataset(torch.rand(20, 1, 4, 4)), batch_size=16)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 16)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def forward(self, x):
        hidden = F.relu(self.fc1(x))
        mu, logvar = self.fc21(hidden), self.fc22(hidden)
        code = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(code)))), mu, logvar


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 16), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(epoch):
    model.train()
    train_loss = 0
    for (data,) in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data.view(-1, 16))
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print("loss %d %.17g" % (epoch, train_loss / len(train_loader.dataset)))


def test():
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for (data,) in test_loader:
            data = data.to(device)
            recon_batch, mu, logvar = model(data.view(-1, 16))
            test_loss += loss_function(recon_batch, data, mu, logvar).item()
    print("test %.17g" % (test_loss / len(test_loader.dataset)))


if __name__ == "__main__":
    for epoch in range(1, 4):
        train(epoch)
        test()
        with torch.no_grad():
            sample = model.fc3(torch.randn(64, 3).to(device))
        print("sample %.17g" % sample.sum().item())
    for name, parameter in model.named_parameters():
        print("weights %s %.17g" % (name, parameter.abs().sum().item()))
