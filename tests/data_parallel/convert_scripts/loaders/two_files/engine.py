"""One epoch, and an evaluation."""

import torch


class SmoothedValue:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def train_one_epoch(model, criterion, optimizer, lr_scheduler, data_loader, epoch, print_freq):
    model.train()
    meter, accuracy = SmoothedValue(), SmoothedValue()
    for i, (image, target) in enumerate(data_loader):
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        lr_scheduler.step()
        acc1 = (output.argmax(dim=1) == target).float().mean()
        meter.update(loss.item(), image.size(0))
        accuracy.update(acc1.item(), image.size(0))
        if i % print_freq == 0:
            print("epoch", epoch, i, "lr", optimizer.param_groups[0]["lr"], "loss", meter.avg, "acc", accuracy.avg)


@torch.no_grad()
def evaluate(model, criterion, data_loader):
    model.eval()
    total, correct, loss = 0, 0, 0.0
    for image, target in data_loader:
        output = model(image)
        loss += criterion(output, target).item() * image.shape[0]
        correct += output.argmax(1).eq(target).sum().item()
        total += target.size(0)
    print("test", loss / total, correct / total)
