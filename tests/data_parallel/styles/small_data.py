"""What the scripts have in common: seeds, small data, small models. The last batch of each loader is an odd one."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
np.random.seed(0)
random.seed(0)
N = 45
X = torch.randn(N, 6)
Y = torch.randint(0, 3, (N,))
R = X.sum(1, keepdim=True) + torch.randn(N, 1)
labelled = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
measured = DataLoader(TensorDataset(X, R), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
regression = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD([*model.parameters(), *regression.parameters()], lr=0.1)


def print_weights(*models):
    for one in models or (model, regression):
        print("weights", *["%.7f" % parameter.detach().sum().item() for parameter in one.parameters()])
