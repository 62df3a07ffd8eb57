"""A model that returns its loss and generates text; later, batches that do not divide by two."""

import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
text = torch.randint(0, 9, (500,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 8)
        self.pos = nn.Embedding(6, 8)
        self.head = nn.Linear(8, 9)

    def forward(self, idx, targets=None):
        logits = self.head(self.emb(idx) + self.pos(torch.arange(idx.shape[1])))
        if targets is None:
            return logits, None
        B, T, C = logits.shape
        return logits, nn.functional.cross_entropy(logits.view(B * T, C), targets.view(B * T))

    def generate(self, idx, count):
        for _ in range(count):
            logits, _ = self(idx[:, -6:])
            idx = torch.cat((idx, torch.multinomial(logits[:, -1, :].softmax(-1), 1)), 1)
        return idx


class Text:
    def __init__(self, tokens):
        self.tokens = tokens

    def batch(self, size, length):
        starts = torch.randint(self.tokens.size(0) - length, size=(size,))
        x = torch.stack([self.tokens[s : s + length] for s in starts])
        return x, torch.stack([self.tokens[s + 1 : s + length + 1] for s in starts])


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
data = Text(text)
seen = 0
for i in range(13):
    xb, yb = data.batch(12 if i < 10 else 7, 6)
    _, loss = model(xb, yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen += xb.numel()
    print(i, "%.9f" % loss.item(), seen, xb.shape)
    if i == 9:
        with torch.no_grad():
            print(model.generate(torch.zeros((1, 1), dtype=torch.long), 12)[0].tolist())
for p in model.parameters():
    print("weights %.9f" % p.abs().sum().item())
