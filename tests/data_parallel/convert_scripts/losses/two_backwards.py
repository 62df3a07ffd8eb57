"""Two backwards of one batch, losses kept with their data, a loader by places."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def train_one(epoch, model, loader, opt, crit, args={"clip": 1.0}):
    model.train()
    tot = 0
    cor = 0
    n = 0
    for idx, (a, b) in enumerate(loader):
        o = model(a)
        l1 = crit(o, b)
        (l1 * 0.5).backward(retain_graph=True)
        l2 = crit(o * 2, b)
        l2.backward()
        nn.utils.clip_grad_value_(model.parameters(), args["clip"])
        opt.step()
        opt.zero_grad()
        tot += l1.data * a.size(0)
        n += b.shape[0]
        cor += torch.eq(o.argmax(1), b).sum()
        ema = 0.9 * ema + 0.1 * l2.item() if idx else l2.item()
    return tot / n, cor.double() / n, ema


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 3)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.l(x)


m = M()
opt = torch.optim.SGD(m.parameters(), 0.1)
ld = DataLoader(TensorDataset(torch.randn(36, 4), torch.randint(3, (36,))), 6, True)
for e in range(2):
    a, b, c = train_one(e, m, ld, opt, nn.CrossEntropyLoss())
    print("%d %.8f %.6f %.6f" % (e, a, b, c), m.steps)
