"""CycleGAN's manner: losses as attributes, methods that go backward, images kept in attributes."""

import itertools

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(33)
torch.set_default_dtype(torch.float64)


class CycleModel:
    def __init__(self):
        self.netG_A, self.netG_B = nn.Linear(4, 4), nn.Linear(4, 4)
        self.netD_A = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
        self.criterionGAN = nn.MSELoss()
        self.criterionCycle = torch.nn.L1Loss()
        self.optimizer_G = torch.optim.Adam(
            itertools.chain(self.netG_A.parameters(), self.netG_B.parameters()), lr=0.01, betas=(0.5, 0.999)
        )
        self.optimizer_D = torch.optim.Adam(self.netD_A.parameters(), lr=0.01)
        self.optimizers = [self.optimizer_G, self.optimizer_D]
        self.loss_names = ["D_A", "G_A", "cycle_A"]

    def set_input(self, batch):
        self.real_A, self.real_B = batch

    def forward(self):
        self.fake_B = self.netG_A(self.real_A)
        self.rec_A = self.netG_B(self.fake_B)

    def backward_D(self):
        pred_real = self.netD_A(self.real_B)
        pred_fake = self.netD_A(self.fake_B.detach())
        real = self.criterionGAN(pred_real, torch.ones_like(pred_real))
        fake = self.criterionGAN(pred_fake, torch.zeros_like(pred_fake))
        self.loss_D_A = (real + fake) * 0.5
        self.loss_D_A.backward()

    def backward_G(self):
        pred_fake = self.netD_A(self.fake_B)
        self.loss_G_A = self.criterionGAN(pred_fake, torch.ones_like(pred_fake))
        self.loss_cycle_A = self.criterionCycle(self.rec_A, self.real_A) * 10.0
        self.loss_G = self.loss_G_A + self.loss_cycle_A
        self.loss_G.backward()

    def optimize_parameters(self):
        self.forward()
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()
        self.optimizer_D.zero_grad()
        self.backward_D()
        self.optimizer_D.step()

    def get_current_losses(self):
        return {name: float(getattr(self, "loss_" + name)) for name in self.loss_names}


model = CycleModel()
dataset = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 4)), batch_size=8, shuffle=True)
for epoch in range(2):
    for i, data in enumerate(dataset):
        model.set_input(data)
        model.optimize_parameters()
        print(epoch, i, model.loss_G.item(), model.loss_D_A.item())
    print(epoch, model.get_current_losses())
