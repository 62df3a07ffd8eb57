"""Loaders made in functions, one for each fold; an own collate function, and workers."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)


class Rows(Dataset):
    def __init__(self, n):
        generator = np.random.RandomState(0)
        self.x = generator.randn(n, 3)
        self.y = self.x.sum(1, keepdims=True) ** 2

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.y[index], "name": f"row{index}"}


def collate(rows):
    return {
        "x": torch.from_numpy(np.stack([row["x"] for row in rows])),
        "y": torch.from_numpy(np.stack([row["y"] for row in rows])),
        "names": [row["name"] for row in rows],
    }


def get_loaders(data, fold):
    rows = list(range(len(data)))
    held = rows[fold::3]
    kept = [row for row in rows if row not in held]
    train = DataLoader(Subset(data, kept), batch_size=10, shuffle=True, collate_fn=collate, num_workers=1)
    valid = DataLoader(Subset(data, held), batch_size=10, shuffle=False, collate_fn=collate)
    return train, valid


def run_fold(data, fold, epochs=2):
    train, valid = get_loaders(data, fold)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(epochs):
        losses = []
        for batch in train:
            prediction = model(batch["x"])
            loss = nn.MSELoss()(prediction, batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print("train", np.mean(losses))
    with torch.no_grad():
        errors = [nn.functional.mse_loss(model(batch["x"]), batch["y"]).item() for batch in valid]
    return sum(errors) / len(errors)


if __name__ == "__main__":
    rows = Rows(33)
    scores = [run_fold(rows, fold) for fold in range(3)]
    print("folds", scores, np.mean(scores))
