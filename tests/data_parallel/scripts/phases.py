"""One backward in the script, whose weights change with the phase of the training; what is left out must not decay."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    body, heads = nn.Linear(6, 8), nn.ModuleList(nn.Linear(8, 3) for _ in range(3))
    parameters = [*body.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, weight_decay=0.1)
    loader = DataLoader(TensorDataset(torch.randn(40, 6), torch.randint(3, (40,))), batch_size=8, shuffle=True)
    for head in (heads[0], heads[1], heads[0], heads[2]):
        for x, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(torch.relu(body(x))), labels)
            loss.backward()
            optimizer.step()
            print("loss %.17g" % loss.item())
    for number, parameter in enumerate(parameters):
        print("weights %d %.17g" % (number, parameter.abs().sum().item()))


if __name__ == "__main__":
    main()
