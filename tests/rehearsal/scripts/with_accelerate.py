"""Accelerate's own loop: nothing of devices or ranks in the script."""

import gc

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    y = (x.sum(1, keepdim=True) > 0).float()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(4):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()[None]).mean().item())
    accelerator.wait_for_everyone()
    learned = losses[-1] < losses[0]
    print(f"{accelerator.distributed_type} {accelerator.device} {accelerator.num_processes} learned={learned}")
    del model, optimizer, loss
    gc.collect()
    accelerator.end_training()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
