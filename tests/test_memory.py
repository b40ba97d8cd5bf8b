"""Bytes of a training step: the count on fake tensors against real tensors and real optimizers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons import models
from amp_lessons.memory import (
    NOT_HERE,
    PRECISIONS,
    STATE_COPIES,
    allocator_check,
    crossover_batch,
    optimizer_bytes,
    training_memory,
)

LOW = {"fp32": None, "amp fp16": torch.float16, "amp bf16": torch.bfloat16, "bf16": None}


def step(batch=16, width=24, layers=3):
    torch.manual_seed(0)
    model, (inputs,) = models.linear_stack(width, layers, batch)
    return model, inputs, torch.randn(batch, width)


def real_activations(model, inputs, target, low):
    """What autograd keeps in a real forward pass, by hand: bytes by address."""
    apart = {t.data_ptr() for t in (*model.parameters(), inputs, target)}
    kept, alive = {}, []

    def pack(tensor):
        alive.append(tensor)
        if not any(tensor.shape == p.t().shape for p in model.parameters() if p.dim() > 1):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", low, enabled=low is not None):
        output = model(inputs)
        loss = mse_loss(output, target)
    kept[output.data_ptr()] = output.nbytes
    # The real kernel leaves the loss in a buffer as large as the output; only its number counts.
    assert loss.untyped_storage().nbytes() == loss.element_size() * output.numel()
    return loss.nbytes + sum(size for address, size in kept.items() if address not in apart)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_count_is_what_a_real_forward_keeps(precision):
    model, inputs, target = step()
    counted = training_memory(model, inputs, precision=precision, loss=mse_loss, target=target)
    if precision == "bf16":
        model, inputs, target = model.bfloat16(), inputs.bfloat16(), target.bfloat16()
    assert counted.activations == real_activations(model, inputs, target, LOW[precision])
    assert counted.parameters == sum(p.nbytes for p in model.parameters())
    assert counted.data == inputs.nbytes + target.nbytes
    assert counted.total == sum(
        (counted.model_states, counted.data, counted.activations, counted.cast_cache)
    )


@pytest.mark.parametrize("precision", ["fp32", "amp bf16", "bf16"])
@pytest.mark.parametrize("optimizer", STATE_COPIES)
def test_model_states_are_what_torch_keeps(precision, optimizer):
    model, inputs, target = step()
    choices = {"precision": precision, "optimizer": optimizer, "loss": mse_loss, "target": target}
    counted = training_memory(model, inputs, **choices)
    model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
    real = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.AdamW(p, lr=0.1),
    }[optimizer](model.parameters())
    low = LOW[precision]
    with torch.autocast("cpu", low, enabled=low is not None):
        loss = model(inputs.to(model[0].weight.dtype)).float().sum()
    loss.backward()
    real.step()
    steps = 4 * len(list(model.parameters())) if optimizer == "adam" else 0
    assert counted.gradients == sum(p.grad.nbytes for p in model.parameters())
    assert counted.optimizer == optimizer_bytes(real) - steps


def test_the_recipes_growth_and_its_data():
    with torch.device("meta"):
        model, (inputs,) = models.linear_stack()
        target = torch.empty_like(inputs)
    fp32, amp = (
        training_memory(model, inputs, precision=p, loss=mse_loss, target=target, device="cuda")
        for p in ("fp32", "amp fp16")
    )
    assert fp32.activations == amp.activations
    assert amp.total - fp32.total == amp.cast_cache == 100_687_872
    assert 0 <= amp.cast_cache - (7_634_019_840 - 7_533_332_992) <= 1024
    assert 50 * fp32.data == 6_710_886_400


def test_frozen_tied_and_16_bit_parameters():
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8), nn.Linear(8, 2))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    counted = training_memory(model, torch.randn(3, 8), precision="amp bf16", optimizer="adam")
    assert counted.parameters == 4 * (64 + 8 + 18)
    assert counted.gradients == 4 * (64 + 8)
    assert counted.optimizer == 2 * counted.gradients
    assert counted.cast_cache == 2 * (64 + 8)


def test_crossover_is_where_the_totals_cross():
    def both(batch, layers):
        model, inputs, target = step(batch, 16, layers)
        rest = {"loss": mse_loss, "target": target}
        precisions = ("fp32", "amp bf16")
        return [training_memory(model, inputs, precision=p, **rest) for p in precisions]

    fp32, amp = zip(both(1, 6), both(2, 6), strict=True)
    found = crossover_batch(fp32, amp)
    assert found > 1
    for batch, less in ((found - 1, False), (found, True)):
        plain, low = both(batch, 6)
        assert (low.total < plain.total) == less
    fp32, amp = zip(both(1, 3), both(2, 3), strict=True)
    assert crossover_batch(fp32, amp) is None
    assert crossover_batch(amp, fp32) == 1


def test_nothing_is_changed_and_size_does_not_matter():
    model, inputs, target = step()
    before = [p.clone() for p in model.parameters()]
    training_memory(model, inputs, precision="bf16", loss=mse_loss, target=target)
    for old, now in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, now)
        assert now.dtype == torch.float32
        assert now.grad is None
    with torch.device("meta"):
        large, (images,) = models.linear_stack(200_000, 2, 10)
    assert training_memory(large, images, optimizer="adam").model_states > 10**12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of fp32, amp fp16, amp bf16, bf16; got"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, momentum, adam; got 'lion'"),
        ({"device": "tpu"}, "device must be one of cpu, cuda; got 'tpu'"),
    ],
)
def test_what_it_refuses(arguments, message):
    model, inputs, _ = step()
    with pytest.raises(ValueError, match=message):
        training_memory(model, inputs, **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_nothing_is_invented():
    model, inputs, target = step()
    with pytest.raises(ValueError, match="precision must be one of"):
        allocator_check(model, inputs, precision="fp8", loss=mse_loss, target=target)
    assert allocator_check(model, inputs, loss=mse_loss, target=target) == NOT_HERE


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("precision", ["fp32", "amp fp16"])
def test_the_allocator_agrees(precision):
    """To a cuBLAS workspace and 512 bytes a tensor."""
    model, inputs, target = step(2048, 1024, 8)
    said = allocator_check(model, inputs, precision=precision, loss=mse_loss, target=target)
    for line in said.splitlines()[1:3]:
        counted, seen = (int(number.replace(",", "")) for number in line.split()[-2:])
        assert counted <= seen <= counted + 2**26
