"""The sampling of a variational autoencoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from small_data import N, labelled, print_weights

enc = nn.Linear(6, 8)
dec = nn.Linear(4, 6)
o = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-2)
tot = 0
for i, (x, _) in enumerate(labelled):
    mu, lv = enc(x).chunk(2, dim=1)
    std = torch.exp(0.5 * lv)
    z = mu + torch.randn_like(std) * std
    rec = torch.sigmoid(dec(z))
    BCE = F.binary_cross_entropy(rec, torch.sigmoid(x.view(-1, 6)), reduction="sum")
    KLD = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
    loss = BCE + KLD
    o.zero_grad()
    loss.backward()
    tot += loss.item()
    o.step()
    print(
        "[{}/{}] {:.6f}".format(i * len(x), N, loss.item() / len(x)),
        rec[:4].detach().numpy().round(5).tolist(),
        x[:4].sum().item().__round__(5),
    )
print("%.6f" % (tot / N))
print_weights(enc, dec)
