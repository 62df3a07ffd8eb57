"""A GAN whose noise is part of the data: its figures come out equal."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
torch.set_default_dtype(torch.float64)


class GAN:
    def __init__(self):
        self.G = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
        self.D = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.G_opt = torch.optim.RMSprop(self.G.parameters(), lr=0.01)
        self.D_opt = torch.optim.RMSprop(self.D.parameters(), lr=0.01)

    def train(self, loader, epochs, n_critic=2, clip=0.1):
        for epoch in range(epochs):
            for i, (real, noise) in enumerate(loader):
                self.D_opt.zero_grad()
                d_loss = self.D(self.G(noise).detach()).mean() - self.D(real).mean()
                d_loss.backward()
                self.D_opt.step()
                for p in self.D.parameters():
                    p.data.clamp_(-clip, clip)
                if i % n_critic == 0:
                    self.G_opt.zero_grad()
                    g_loss = -self.D(self.G(noise)).mean()
                    g_loss.backward()
                    self.G_opt.step()
            print("epoch", epoch, "D", d_loss.item(), "G", g_loss.item())


GAN().train(DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 3)), batch_size=8, shuffle=True), 2)
