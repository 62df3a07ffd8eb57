"""Functions of their own for each step, a model that is called through its methods, gradient accumulation, workers."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(12, 4)
        self.up = nn.Linear(4, 12)
        self.unused = nn.Linear(3, 3)

    def encode(self, x):
        return torch.tanh(self.down(x))

    def decode(self, code):
        return self.up(code)


def compute_loss(model, x):
    return (model.decode(model.encode(x)) - x).abs().mean()


def train_one_epoch(args, model, loader, optimizer, scheduler):
    model.train()
    running = 0.0
    optimizer.zero_grad()
    for step, (x,) in enumerate(loader):
        loss = compute_loss(model, x) / args.accumulate
        running += loss.item() * args.accumulate
        loss.backward()
        if (step + 1) % args.accumulate == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    print("loss %.17g" % (running / len(loader)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model = Autoencoder()
    generator = torch.Generator().manual_seed(7)
    data = TensorDataset(torch.randn(72, 12))
    loader = DataLoader(
        data, batch_size=12, shuffle=True, num_workers=args.workers, generator=generator, drop_last=True
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, epochs=3, steps_per_epoch=len(loader) // 3)
    for _ in range(3):
        train_one_epoch(args, model, loader, optimizer, scheduler)
    for name, parameter in model.named_parameters():
        print("weights %s %.17g" % (name, parameter.abs().sum().item()))


if __name__ == "__main__":
    main()
