"""nn.DataParallel and its `module`; a part that is frozen, and trained later with other parameters."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
torch.set_default_dtype(torch.float64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(4, 6)
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.backbone(x)))


model = Net()
for param in model.backbone.parameters():
    param.requires_grad = False
device = "cuda:0" if torch.cuda.is_available() else "cpu"
model = torch.nn.DataParallel(model).to(device)
loader = DataLoader(TensorDataset(torch.randn(30, 4), torch.randint(3, (30,))), batch_size=10, shuffle=True)


def train(optimizer):
    for x, y in loader:
        loss = nn.CrossEntropyLoss()(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


train(torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1))
for param in model.module.backbone.parameters():
    param.requires_grad = True
train(
    torch.optim.SGD(
        [{"params": model.module.backbone.parameters(), "lr": 0.01}, {"params": model.module.fc.parameters()}], lr=0.1
    )
)
torch.save(model.module.state_dict(), "model.pt")
print(sorted(torch.load("model.pt")), model.module.fc.weight.sum().item())
