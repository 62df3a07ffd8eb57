"""A writer of summaries, a dictionary of figures, files in loops, `exit` at the end."""

import os
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(38)
torch.set_default_dtype(torch.float64)


class SummaryWriter:
    def __init__(self, log_dir):
        self.log_dir = log_dir
        os.makedirs(log_dir)
        self.file = open(os.path.join(log_dir, "events"), "w")

    def add_scalar(self, name, value, step):
        self.file.write(f"{name} {float(value):.10f} {step}\n")

    def close(self):
        self.file.close()


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), batch_size=6, shuffle=True)
writer = SummaryWriter(log_dir="runs/exp")
step = 0
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss, step)
        writer.add_scalar("train/mean", out.mean().item(), step)
        metrics = {"loss": loss.item(), "lr": optimizer.param_groups[0]["lr"]}
        print(step, metrics)
        step += 1
    with open(os.path.join("runs", f"weights{epoch}.txt"), "w") as file:
        file.write(str(model.weight.tolist()))
    torch.save(model, os.path.join(writer.log_dir, "model.pt"))
writer.close()
print(open("runs/exp/events").read())
print(sorted(os.listdir("runs")))
sys.exit(0)
