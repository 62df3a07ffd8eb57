"""A language model of LSTMs: sequences first, embeddings, a loss over time whose padding is ignored."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
VOCABULARY, PAD = 11, 0
texts = [torch.randint(1, VOCABULARY, (int(torch.randint(3, 9, ())),)) for _ in range(40)]


def collate(batch):
    return pad_sequence([text[:-1] for text in batch]), pad_sequence([text[1:] for text in batch])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 6)
        self.lstm = nn.LSTM(6, 10, num_layers=2)
        self.head = nn.Linear(10, VOCABULARY)

    def forward(self, text):
        return self.head(self.lstm(self.embedding(text))[0])


model = Model()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
loader = DataLoader(texts, batch_size=8, shuffle=True, collate_fn=collate)
for _ in range(3):
    for inputs, targets in loader:
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1), ignore_index=PAD)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print("loss %.17g" % float(loss))
for name, parameter in model.named_parameters():
    print("weights %s %.17g" % (name, parameter.abs().sum().item()))
