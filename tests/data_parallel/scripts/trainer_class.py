"""A trainer class: its fit calls an epoch's method, which calls a step's; a scheduler that follows the test loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_default_dtype(torch.float64)


class Spiral(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(3, (count,), generator=generator)
        self.points = torch.randn(count, 5, generator=generator) + self.labels[:, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"points": self.points[index], "label": self.labels[index]}


class Trainer:
    def __init__(self, model, train, test):
        self.model, self.train, self.test = model, train, test
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0)

    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(batch["points"]), batch["label"])
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run_epoch(self):
        self.model.train()
        losses = [self.step(batch) for batch in self.train]
        print("loss %.17g" % (sum(losses) / len(losses)))

    def evaluate(self):
        right = total = 0
        for batch in self.test:
            self.model.eval()
            with torch.no_grad():
                right += (self.model(batch["points"]).argmax(1) == batch["label"]).sum().item()
            total += len(batch["label"])
        print("accuracy %.17g" % (right / total))
        return right / total

    def fit(self, epochs):
        for _ in range(epochs):
            self.run_epoch()
            self.scheduler.step(1 - self.evaluate())
            print("lr %.17g" % self.optimizer.param_groups[0]["lr"])


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
train = DataLoader(Spiral(48, 0), batch_size=8, shuffle=True)
Trainer(model, train, DataLoader(Spiral(31, 1), batch_size=8)).fit(3)
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
