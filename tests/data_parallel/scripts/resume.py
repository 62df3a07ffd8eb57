"""Trains in two lives of one command: a checkpoint with optimizer and generator state is saved, found and resumed."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = "checkpoint.pt"


def main(last):
    torch.manual_seed(8)
    torch.set_default_dtype(torch.float64)
    x = torch.randn(40, 5)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    start = 0
    if len(sys.argv) > 1:
        checkpoint = torch.load(CHECKPOINT, weights_only=False)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["random"])
        start = checkpoint["epoch"]
    for epoch in range(start, last):
        for inputs, targets in loader:
            loss = ((model(inputs) - targets) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with open("losses.txt", "a") as file:
            file.write("%d %.17g\n" % (epoch, loss.item()))
        print("loss %.17g" % loss.item())
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": last}
    torch.save({**state, "random": torch.get_rng_state()}, CHECKPOINT)
    for parameter in model.parameters():
        print("weights %.17g" % parameter.abs().sum().item())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
