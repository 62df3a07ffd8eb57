"""Forward hooks that look at activations."""

import torch.nn.functional as F
from small_data import labelled, model, optimizer, print_weights

acts = {}
model[0].register_forward_hook(lambda mod, i, o: acts.__setitem__("a", o.detach()))
model[1].register_forward_hook(lambda mod, i, o: acts.__setitem__("m", o.detach().mean().item()))
for x, y in labelled:
    value = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    print("%.6f %.6f %.6f" % (value.item(), acts["a"].std().item(), acts["m"]), acts["a"].shape)
print_weights()
