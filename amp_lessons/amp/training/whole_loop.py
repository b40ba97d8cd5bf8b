"""A whole training loop, in FP32 and in mixed precision: the second is the one to take home.

Lesson 00 shows what changes from the first to the second. Both are written without types, as a
training script would have them.
"""

import torch
from torch.nn.utils import clip_grad_norm_


def train_plain(model, optimizer, loader, loss_fn, epochs=1, max_norm=None):
    """Train in FP32. Returns the loss of each batch.

    Args:
        model: an `nn.Module` with float32 parameters.
        optimizer: of its parameters.
        loader: gives batches of inputs and targets, on any device.
        loss_fn: takes outputs and targets, and gives a loss with one element.
        epochs: how often to go through the loader.
        max_norm: a limit for the norm of all gradients together; None for no clipping.
    """
    device = next(model.parameters()).device
    losses = []
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs.to(device)), targets.to(device))
            loss.backward()
            if max_norm is not None:
                clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train_amp(model, optimizer, loader, loss_fn, epochs=1, max_norm=None, dtype=torch.float16):
    """Train in mixed precision, on CUDA or on a CPU. Returns the loss of each batch.

    Args:
        model: an `nn.Module` with float32 parameters.
        optimizer: of its parameters.
        loader: gives batches of inputs and targets, on any device.
        loss_fn: takes outputs and targets, and gives a loss with one element.
        epochs: how often to go through the loader.
        max_norm: a limit for the norm of all gradients together; None for no clipping.
        dtype: of autocast, float16 with a loss scale or bfloat16 without.
    """
    device = next(model.parameters()).device
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    losses = []
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=dtype):
                loss = loss_fn(model(inputs.to(device)), targets.to(device))
            scaler.scale(loss).backward()
            if max_norm is not None:
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
    return torch.stack(losses).tolist()
