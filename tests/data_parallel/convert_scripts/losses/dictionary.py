"""Losses in a dictionary, summed up; a class of several terms; steps as methods of the model."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(32)
torch.set_default_dtype(torch.float64)


class Model(nn.Module):
    def __init__(self, hparams):
        super().__init__()
        self.hparams = hparams
        self.layer = nn.Linear(4, 3)
        self.box = nn.Linear(4, 2)

    def forward(self, x):
        return {"logits": self.layer(x), "box": self.box(x)}

    def training_step(self, batch, batch_idx):
        x, y, z = batch
        out = self(x)
        losses = {"class": F.cross_entropy(out["logits"], y), "box": F.l1_loss(out["box"], z)}
        return losses

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


model = Model({"lr": 0.02})
optimizer = model.configure_optimizers()
data = TensorDataset(torch.randn(32, 4), torch.randint(3, (32,)), torch.randn(32, 2))
for batch_idx, batch in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
    losses = model.training_step(batch, batch_idx)
    loss = losses["class"] + 0.5 * losses["box"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print({name: value.item() for name, value in losses.items()}, loss.item())
for batch_idx, batch in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
    losses = model.training_step(batch, batch_idx)
    total = sum(losses.values())
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print("total", total.item())
