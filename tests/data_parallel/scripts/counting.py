"""What loops count of their batches: in a function, at the module's level, in attributes; as numbers and tensors."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.randn(44, 5)
dataset = TensorDataset(x, (x.sum(1) > 0).long())
loader = DataLoader(dataset, batch_size=8, shuffle=True)
model = nn.Linear(5, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def step(inputs, labels):
    outputs = model(inputs)
    loss = criterion(outputs, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return outputs, loss


def train_epoch(epoch):
    running_loss, running_corrects, total = 0.0, 0, 0
    mean_accuracy, steps = 0.0, 0
    text = "epoch"
    for _, (inputs, labels) in enumerate(loader):
        steps += 1
        outputs, loss = step(inputs, labels)
        _, preds = torch.max(outputs, 1)
        running_loss += loss.item() * inputs.size(0)
        running_corrects += torch.sum(preds == labels.data)
        total += labels.size(0)
        mean_accuracy += (preds == labels).double().mean().item()
    assert text == "epoch"
    print("accuracy %.17g" % (mean_accuracy / steps))
    accuracy = running_corrects.double() / len(dataset)
    print("loss %d %.17g" % (epoch, running_loss / len(dataset)))
    print("accuracy %.17g %.17g" % (accuracy, total))


class Meter:
    def __init__(self):
        self.right = 0
        self.seen = 0

    def epoch(self):
        for inputs, labels in loader:
            outputs, _ = step(inputs, labels)
            self.right += (outputs.argmax(1) == labels).type(torch.float).sum().item()
            self.seen += len(labels)
        print("accuracy %.17g %d" % (self.right, self.seen))


for epoch in range(2):
    train_epoch(epoch)
Meter().epoch()
right = 0
for inputs, labels in loader:
    outputs, _ = step(inputs, labels)
    right += outputs.argmax(1).eq(labels).sum().item()
print("accuracy %d" % right)
for parameter in model.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
