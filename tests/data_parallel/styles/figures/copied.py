"""A batch that is copied, and one that is pickled."""

import copy
import pickle

import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

for x, y in labelled:
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept = pickle.loads(pickle.dumps({"labels": y, "out": out.detach()}))
    print("%.6f" % loss.item(), copy.copy(x).sum().item(), copy.deepcopy(x).sum().item(), len(kept["labels"]))
    print((kept["out"].argmax(1) == kept["labels"]).sum().item())
print_weights()
