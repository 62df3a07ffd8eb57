"""Files: a CSV log, JSON, checkpoints of each epoch, resumed from; random seeds by epoch."""

import csv
import json
import os
import random

import numpy as np
import torch
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True


set_seed(20)
os.makedirs("runs/log", exist_ok=True)
data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))


def fit(resume, epochs):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = 0
    if resume and os.path.isfile(resume):
        checkpoint = torch.load(resume)
        start = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print(f"=> loaded (epoch {start})")
    loader = DataLoader(data, batch_size=6, shuffle=True)
    with open("runs/log/log.csv", "a", newline="") as file:
        writer = csv.writer(file)
        for epoch in range(start, epochs):
            set_seed(epoch)
            running = 0.0
            for x, y in loader:
                loss = nn.functional.l1_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                running += loss.item()
            writer.writerow([epoch, running / len(loader)])
            state = {"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, f"runs/log/{epoch}.pt")
            print("epoch", epoch, running / len(loader))
    return model


fit("", 2)
model = fit("runs/log/1.pt", 4)
with open("runs/log/log.csv") as file:
    print(file.read().split())
with open("runs/result.json", "w") as file:
    json.dump({"weight": model.weight.tolist()}, file)
print(model.weight.tolist(), sorted(os.listdir("runs/log")))
