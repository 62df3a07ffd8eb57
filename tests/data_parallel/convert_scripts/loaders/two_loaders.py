"""Two loaders at once: zip of them, and the second by an iterator that begins again."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
torch.set_default_dtype(torch.float64)
source_loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=8, shuffle=True)
target_loader = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=4, shuffle=True)
features, head, domain = nn.Linear(4, 5), nn.Linear(5, 2), nn.Linear(5, 2)
optimizer = torch.optim.SGD([{"params": m.parameters()} for m in (features, head, domain)], lr=0.1, momentum=0.5)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    for (xs, ys), (xt,) in zip(source_loader, target_loader):
        fs, ft = features(xs), features(xt)
        class_loss = criterion(head(fs), ys)
        domain_loss = criterion(domain(fs), torch.zeros(len(xs), dtype=torch.long))
        domain_loss = domain_loss + criterion(domain(ft), torch.ones(len(xt), dtype=torch.long))
        loss = class_loss + 0.1 * domain_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("zip", loss.item(), class_loss.item(), domain_loss.item())
target_iter = iter(target_loader)
for step, (xs, ys) in enumerate(source_loader, 1):
    try:
        (xt,) = next(target_iter)
    except StopIteration:
        target_iter = iter(target_loader)
        (xt,) = next(target_iter)
    loss = criterion(head(features(xs)), ys) + features(xt).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("next", step, loss.item())
