"""A GAN in DCGAN's manner: two models, an optimizer each, three backwards and two steps for each batch."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
torch.set_default_dtype(torch.float64)
device = "cpu"
nz = 4
netG = nn.Sequential(nn.Linear(nz, 16), nn.ReLU(True), nn.Linear(16, 6)).to(device)
netD = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid()).to(device)
criterion = nn.BCELoss()
fixed_noise = torch.randn(8, nz, device=device)
optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
dataloader = DataLoader(TensorDataset(torch.randn(40, 6)), batch_size=8, shuffle=True)
for _ in range(3):
    for data in dataloader:
        netD.zero_grad()
        real = data[0].to(device)
        batch_size = real.size(0)
        label = torch.full((batch_size,), 1.0, dtype=real.dtype, device=device)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        noise = torch.randn(batch_size, nz, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
        print("loss %.17g %.17g" % (errD.item(), errG.item()))
    with torch.no_grad():
        print("sample %.17g" % netG(fixed_noise).sum().item())
for parameter in [*netG.parameters(), *netD.parameters()]:
    print("weights %.17g" % parameter.abs().sum().item())
