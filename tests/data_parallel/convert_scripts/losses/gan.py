"""A GAN: two models, two optimizers, labels of the batch's size."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)
torch.set_default_dtype(torch.float64)
latent_dim = 3
dataloader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8, shuffle=True)
generator = nn.Sequential(nn.Linear(latent_dim, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4))
discriminator = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
adversarial_loss = nn.BCELoss()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=0.002, betas=(0.5, 0.999))
for epoch in range(2):
    for i, (imgs,) in enumerate(dataloader):
        valid = torch.ones(imgs.size(0), 1)
        fake = torch.zeros(imgs.size(0), 1)
        optimizer_G.zero_grad()
        z = torch.randn(imgs.shape[0], latent_dim)
        gen_imgs = generator(z)
        g_loss = adversarial_loss(discriminator(gen_imgs), valid)
        g_loss.backward()
        optimizer_G.step()
        optimizer_D.zero_grad()
        real_loss = adversarial_loss(discriminator(imgs), valid)
        fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
        d_loss = (real_loss + fake_loss) / 2
        d_loss.backward()
        optimizer_D.step()
        print(f"[Epoch {epoch}] [Batch {i}] [D loss: {d_loss.item():f}] [G loss: {g_loss.item():f}]")
