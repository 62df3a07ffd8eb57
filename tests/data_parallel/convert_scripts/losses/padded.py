"""Sequences that are padded in their batch, whose padding is ignored: said."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(34)
torch.set_default_dtype(torch.float64)
sentences = [torch.randint(1, 9, (int(length),)) for length in torch.randint(3, 9, (32,))]


def collate_fn(batch):
    return pad_sequence(batch, batch_first=True, padding_value=0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.fc = nn.Linear(6, 9)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x))
        return self.fc(out)


model = Tagger()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for tokens in DataLoader(sentences, batch_size=8, shuffle=True, collate_fn=collate_fn):
    out = model(tokens[:, :-1])
    loss = criterion(out.reshape(-1, 9), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
