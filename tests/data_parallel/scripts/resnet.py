"""A small ResNet with GroupNorm, best weights kept in a file and loaded at the end, two phases of one loop."""

import copy
import os
import time

import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
torch.set_default_dtype(torch.float64)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(2, width)

    def forward(self, x):
        out = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(out)))


body = [nn.Conv2d(3, 4, 3, padding=1), Block(4), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
model_ft = nn.Sequential(*body, nn.Linear(4, 3))
image_datasets = {
    phase: TensorDataset(torch.randn(count, 3, 6, 6), torch.randint(3, (count,)))
    for phase, count in (("train", 36), ("val", 14))
}
dataloaders = {
    phase: DataLoader(image_datasets[phase], batch_size=8, shuffle=phase == "train") for phase in ("train", "val")
}


def train_model(model, criterion, optimizer, scheduler, num_epochs):
    since = time.time()
    best_acc = -1.0
    for _ in range(num_epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss = 0.0
            running_corrects = 0
            for inputs, labels in dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item()
                running_corrects += (outputs.argmax(1) == labels).sum().item()
            if phase == "train":
                scheduler.step()
            print("loss %s %.17g" % (phase, running_loss / len(dataloaders[phase])))
            if phase == "val":
                print("accuracy %.17g" % (running_corrects / len(image_datasets[phase])))
            if phase == "val" and running_corrects / len(image_datasets[phase]) > best_acc:
                best_acc = running_corrects / len(image_datasets[phase])
                torch.save(model.state_dict(), os.path.join("outputs", "best.pt"))
                best = copy.deepcopy(model.state_dict())
    print("took %ds" % (time.time() - since))
    model.load_state_dict(torch.load(os.path.join("outputs", "best.pt")))
    assert all(torch.equal(value, best[name]) for name, value in model.state_dict().items())
    return model


os.makedirs("outputs", exist_ok=True)
optimizer_ft = optim.SGD(model_ft.parameters(), lr=0.05, momentum=0.9)
step_lr = lr_scheduler.StepLR(optimizer_ft, step_size=1, gamma=0.5)
model_ft = train_model(model_ft, nn.CrossEntropyLoss(label_smoothing=0.1), optimizer_ft, step_lr, 2)
for parameter in model_ft.parameters():
    print("weights %.17g" % parameter.abs().sum().item())
