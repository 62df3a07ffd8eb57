"""A generator that passes batches on, and parts of them one after another: those are said."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def infinite(dl):
    while True:
        yield from dl


def get_data():
    return DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)


class Runner:
    def __init__(self):
        self.data = infinite(get_data())
        self.model = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.step = 0

    def run_loop(self):
        while self.step < 7:
            batch, cond = next(self.data)
            self.run_step(batch, cond)
            self.step += 1

    def run_step(self, batch, cond):
        self.forward_backward(batch, cond)
        self.opt.step()

    def forward_backward(self, batch, cond):
        self.opt.zero_grad()
        micro = batch.shape[0]
        for i in range(0, batch.shape[0], micro):
            losses = (self.model(batch[i : i + micro]) - cond[i : i + micro]) ** 2
            loss = losses.mean()
            print("loss", loss.item())
            loss.backward()


Runner().run_loop()
