"""Two networks against each other, the noise of one of numpy, in tensors and `Variable`s of the old kind."""

import numpy as np
import torch
from small_data import labelled, print_weights
from torch import nn
from torch.autograd import Variable

Tensor = torch.DoubleTensor


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.label = nn.Embedding(3, 4)
        self.body = nn.Linear(4, 6)

    def forward(self, noise, labels):
        return torch.tanh(self.body(self.label(labels) * noise))


generator, discriminator = Generator(), nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
first = torch.optim.Adam(generator.parameters(), lr=0.01)
second = torch.optim.Adam(discriminator.parameters(), lr=0.01)
bce = nn.BCELoss()
for samples, _ in labelled:
    size = samples.shape[0]
    valid = Variable(Tensor(size, 1).fill_(1.0), requires_grad=False)
    fake = Variable(Tensor(size, 1).fill_(0.0), requires_grad=False)
    real = Variable(samples.type(Tensor))
    noise = Variable(Tensor(np.random.normal(0, 1, (size, 4))))
    labels = Variable(torch.LongTensor(np.random.randint(0, 3, size)))
    first.zero_grad()
    made = generator(noise, labels)
    loss = bce(discriminator(made), valid)
    loss.backward()
    first.step()
    second.zero_grad()
    against = (bce(discriminator(real), valid) + bce(discriminator(made.detach()), fake)) / 2
    against.backward()
    second.step()
    print("%.6f %.6f %.6f" % (loss.item(), against.item(), made.mean().item()))
print_weights(generator, discriminator)
