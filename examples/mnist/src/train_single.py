"""MNIST on one device, as it is before anybody thinks of several: the same network and arguments as train.py.

python examples/mnist/src/train_single.py --data FOLDER
worldsize run -w 2x2 --data-parallel --code examples/mnist/src -- python train_single.py --data FOLDER
worldsize convert examples/mnist/src/train_single.py
"""

import argparse

import torch
import torch.nn.functional as F
from idx import read_split
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * 12 * 12, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = torch.flatten(self.dropout1(F.max_pool2d(x, 2)), 1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


def load(folder, split):
    images, labels = read_split(folder, split)
    pixels = (torch.tensor(images, dtype=torch.float32).unsqueeze(1) / 255 - 0.1307) / 0.3081
    return TensorDataset(pixels, torch.tensor(labels, dtype=torch.long))


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for number, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if number % args.log_interval == 0:
            print("Train Epoch: %d [step %d/%d]\tLoss: %.6f" % (epoch, number, len(train_loader), loss.item()))


def test(model, device, test_loader):
    model.eval()
    loss = right = 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data.to(device))
            loss += F.nll_loss(output, target.to(device), reduction="sum").item()
            right += output.argmax(dim=1).eq(target.to(device)).sum().item()
    count = len(test_loader.dataset)
    print(
        "\nTest set: Average loss: %.4f, Accuracy: %d/%d (%.0f%%)\n" % (loss / count, right, count, 100 * right / count)
    )


def main():
    parser = argparse.ArgumentParser(description="train on MNIST, on one device")
    parser.add_argument("--data", required=True, help="folder with the four IDX files, plain or gzipped")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(load(args.data, "train"), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(load(args.data, "test"), batch_size=1000)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()


if __name__ == "__main__":
    main()
