"""A transformer with tied weights, an endless iterator over its loader, warm-up, masked targets in a mixed loss."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(4)
torch.set_default_dtype(torch.float64)
VOCABULARY, LENGTH, WIDTH = 13, 6, 8


class Text(Dataset):
    def __init__(self):
        self.data = torch.randint(VOCABULARY, (60 + LENGTH,))

    def __len__(self):
        return 60

    def __getitem__(self, index):
        chunk = self.data[index : index + LENGTH + 1]
        mask = (chunk[1:] % 3 > 0).double()
        return chunk[:-1], chunk[1:], mask


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, text, targets, mask):
        causal = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        logits = self.head(self.blocks(self.tokens(text) + self.places, mask=causal, is_causal=True))
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        z_loss = logits.logsumexp(-1).pow(2).mean()
        return (losses * mask).sum() / mask.sum() + 1e-3 * z_loss


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-2)
loader = DataLoader(Text(), batch_size=10, shuffle=True, num_workers=0)
iterator = iter(loader)
for step in range(14):
    try:
        batch = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        batch = next(iterator)
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * min(1, (step + 1) / 5) * (0.5 + 0.5 * math.cos(math.pi * step / 14))
    loss = model(*batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("loss %.17g" % loss.item())
for name, parameter in model.named_parameters():
    print("weights %s %.17g" % (name, parameter.abs().sum().item()))
