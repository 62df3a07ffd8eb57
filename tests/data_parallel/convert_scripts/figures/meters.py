"""AverageMeter and accuracy, as in the public ImageNet example."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
torch.set_default_dtype(torch.float64)


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res


def train(train_loader, model, criterion, optimizer, epoch):
    losses = AverageMeter("Loss", ":.6f")
    top1 = AverageMeter("Acc@1", ":6.2f")
    top2 = AverageMeter("Acc@2", ":6.2f")
    model.train()
    for i, (images, target) in enumerate(train_loader):
        output = model(images)
        loss = criterion(output, target)
        acc1, acc2 = accuracy(output, target, topk=(1, 2))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        top2.update(acc2[0], images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 2 == 0:
            print(epoch, i, losses, top1, top2)


def validate(val_loader, model, criterion):
    losses = AverageMeter("Loss", ":.6f")
    model.eval()
    with torch.no_grad():
        for images, target in val_loader:
            output = model(images)
            losses.update(criterion(output, target).item(), images.size(0))
    print("valid", losses.avg)
    return losses.avg


model = nn.Linear(5, 4)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
train_loader = DataLoader(TensorDataset(torch.randn(32, 5), torch.randint(4, (32,))), batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(torch.randn(11, 5), torch.randint(4, (11,))), batch_size=8)
best = None
for epoch in range(2):
    train(train_loader, model, criterion, optimizer, epoch)
    loss = validate(val_loader, model, criterion)
    best = loss if best is None else min(best, loss)
print("best", best)
