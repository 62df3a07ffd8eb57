import torch
from torch import nn

from .data import make_loader


class Trainer:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=0.01)
        self.loss_fn = nn.SmoothL1Loss()

    def fit(self, epochs):
        for epoch in range(epochs):
            total = 0.0
            for x, y in self.loader:
                total += self._step(x, y)
            print(epoch, total / len(self.loader))

    def _step(self, x, y):
        loss = self.loss_fn(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def main():
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64)
    trainer = Trainer(nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 1)), make_loader(12))
    trainer.fit(3)
