"""A class Trainer: training and validation by one method, hooks, its own log, a prefetcher of its own."""

import logging

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(29)
torch.set_default_dtype(torch.float64)
logging.basicConfig(level=logging.INFO, filename="train.log")
logger = logging.getLogger(__name__)


class Prefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            yield [each.to(self.device) for each in batch]


class Trainer:
    def __init__(self, model, train_loader, val_loader, lr=0.1):
        self.model = model
        self.train_loader = Prefetcher(train_loader, "cpu")
        self.val_loader = Prefetcher(val_loader, "cpu")
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=len(train_loader) * 2)
        self.global_step = 0
        self.logs = {}

    def log(self, name, value):
        self.logs.setdefault(name, []).append(value)
        logger.info("%s %s", name, value)

    def run_epoch(self, loader, training):
        self.model.train(training)
        total_loss, total_correct, count = 0.0, 0, 0
        for inputs, targets in loader:
            with torch.set_grad_enabled(training):
                outputs = self.model(inputs)
                loss = self.criterion(outputs, targets)
            if training:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.global_step += 1
                self.log("loss", loss.item())
            total_loss += loss.item() * inputs.size(0)
            total_correct += (outputs.argmax(1) == targets).sum().item()
            count += inputs.size(0)
        return total_loss / count, total_correct / count

    def fit(self, epochs):
        for epoch in range(epochs):
            train_loss, train_acc = self.run_epoch(self.train_loader, True)
            with torch.no_grad():
                val_loss, val_acc = self.run_epoch(self.val_loader, False)
            print(epoch, train_loss, train_acc, val_loss, val_acc, self.global_step)
        print(self.logs)


data = TensorDataset(torch.randn(44, 4), torch.randint(3, (44,)))
train_set, val_set = torch.utils.data.random_split(data, [32, 12])
trainer = Trainer(nn.Linear(4, 3), DataLoader(train_set, 8, shuffle=True), DataLoader(val_set, 8))
trainer.fit(2)
