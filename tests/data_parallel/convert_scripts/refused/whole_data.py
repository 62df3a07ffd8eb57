"""The whole data at once."""

import torch

x = torch.linspace(-1, 1, 100).unsqueeze(1)
y = x.pow(2)
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
for t in range(10):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
