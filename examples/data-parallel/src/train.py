"""A script for one process, as the guides write it: handwritten digits, a small network, shuffled batches of 64.

python examples/data-parallel/src/train.py                 by itself
worldsize run examples/data-parallel/job.yml -w 2x2        the same training on 2 nodes with 2 ranks each
worldsize convert examples/data-parallel/src/train.py      how it would be written for all ranks of any launcher
python examples/data-parallel/compare.py                   all three, side by side
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print("epoch %d  loss=%.4f" % (epoch, loss.item()))


def test(model, device, test_loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in test_loader:
            output = model(images.to(device))
            right += (output.argmax(1) == labels.to(device)).sum().item()
    return right / len(test_loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data).float() / 16, torch.tensor(digits.target))
    train_set, test_set = random_split(data, [1472, len(data) - 1472])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        train(model, device, train_loader, optimizer, epoch)
    print("accuracy=%.4f" % test(model, device, test_loader))
    torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()
