"""The training of a module beside it."""

import torch
from engine import evaluate, train_one_epoch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(6)
torch.set_default_dtype(torch.float64)
full = TensorDataset(torch.randn(60, 4), torch.randint(3, (60,)))
train_set, test_set = random_split(full, [40, 20])
data_loader = DataLoader(train_set, batch_size=8, shuffle=True)
data_loader_test = DataLoader(test_set, batch_size=6)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.0005)
lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, steps_per_epoch=len(data_loader), epochs=2)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(2):
    train_one_epoch(model, criterion, optimizer, lr_scheduler, data_loader, epoch, print_freq=2)
    evaluate(model, criterion, data_loader_test)
