"""Dice of a whole batch, as a part of the loss, with a GradScaler: said."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def dice_coeff(input, target, reduce_batch_first=False, epsilon=1e-6):
    sum_dim = (-1, -2) if input.dim() == 2 or not reduce_batch_first else (-1, -2, -3)
    inter = 2 * (input * target).sum(dim=sum_dim)
    sets_sum = input.sum(dim=sum_dim) + target.sum(dim=sum_dim)
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    dice = (inter + epsilon) / (sets_sum + epsilon)
    return dice.mean()


def dice_loss(input, target):
    return 1 - dice_coeff(input, target, reduce_batch_first=True)


@torch.inference_mode()
def evaluate(net, dataloader):
    net.eval()
    score = 0
    for batch in dataloader:
        image, mask_true = batch
        mask_pred = (torch.sigmoid(net(image).squeeze(1)) > 0.5).double()
        score += dice_coeff(mask_pred, mask_true, reduce_batch_first=False)
    net.train()
    return score / max(len(dataloader), 1)


def train_model(model, epochs=2, batch_size=4, val_percent=0.25, amp=False):
    dataset = TensorDataset(torch.randn(32, 1, 4, 4), (torch.rand(32, 4, 4) > 0.5).double())
    n_val = int(len(dataset) * val_percent)
    n_train = len(dataset) - n_val
    train_set, val_set = random_split(dataset, [n_train, n_val], generator=torch.Generator().manual_seed(0))
    loader_args = dict(batch_size=batch_size, num_workers=0, pin_memory=False)
    train_loader = DataLoader(train_set, shuffle=True, **loader_args)
    val_loader = DataLoader(val_set, shuffle=False, drop_last=True, **loader_args)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
    grad_scaler = torch.cuda.amp.GradScaler(enabled=amp)
    criterion = nn.BCEWithLogitsLoss()
    global_step = 0
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0
        for batch in train_loader:
            images, true_masks = batch
            assert images.shape[1] == 1
            with torch.autocast("cpu", enabled=amp):
                masks_pred = model(images)
                loss = criterion(masks_pred.squeeze(1), true_masks)
                loss += dice_loss(torch.sigmoid(masks_pred.squeeze(1)), true_masks)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            global_step += 1
            epoch_loss += loss.item()
            division_step = n_train // (2 * batch_size)
            if division_step > 0:
                if global_step % division_step == 0:
                    val_score = evaluate(model, val_loader)
                    scheduler.step(val_score)
                    print("Validation Dice score: {}".format(val_score))
        print(epoch_loss)


train_model(nn.Conv2d(1, 1, 3, padding=1))
