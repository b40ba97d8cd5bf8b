# %% [markdown]
# # Exercises 11: Past one eager GPU
#
# Compiled, run twice, sharded, accumulated, and in eight bits. Take [[lesson past_one_gpu]] first. No GPU is needed, and no second process: where there are
# several ranks, they are threads of this one, or stand-ins.

# %%
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from amp_lessons.checks import past_one_gpu as ex

# %% [markdown] heading="compiled_gradients"
# Write `compiled_gradients(model, loss_fn, x, backend)`: the gradients of a compiled model, equal
# to eager's.
#
# Compile the model with `backend=backend` (which counts the backward passes of what it compiles,
# and needs no C++ compiler). Run it on `x` under `torch.autocast("cpu", dtype=torch.float16)`. The
# loss is `loss_fn(output)`; call `backward()` outside of autocast. Return the gradients of
# `model.parameters()`, in a list. The model keeps its last layer in FP32, since that layer's
# gradient does not fit in FP16.


# %% exercise="compiled_gradients"
def compiled_gradients(model, loss_fn, x, backend):
    """Forward compiled and under FP16 autocast, backward outside; the gradients, as a list."""

    ### BEGIN SOLUTION
    @torch.compile(backend=backend)
    def forward(x):
        with torch.autocast("cpu", dtype=torch.float16):
            return model(x)

    loss_fn(forward(x)).backward()
    return [parameter.grad for parameter in model.parameters()]
    ### END SOLUTION


# %% [markdown] heading="checkpointed"
# Write `checkpointed(block, x, dtype)`: run a block with activation checkpointing under autocast.
#
# Run `block`, an `nn.Sequential`, on `x` under `torch.autocast("cpu", dtype=dtype)` and return its
# output, with a graph that keeps less than half of the bytes that it keeps without a checkpoint.
# The check calls `backward()` later, outside of autocast, and wants the gradients of the plain run.
# The block has dropout; `x` may or may not need a gradient. The block's parameters stay in FP32.


# %% exercise="checkpointed"
def checkpointed(block, x, dtype):
    """The block's output under autocast, its activations forgotten and made again in backward."""
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=dtype):
        return checkpoint(block, x, use_reentrant=False)
    ### END SOLUTION


# %% [markdown] heading="may_step"
# Write `may_step(gradients, scale, all_reduce)`: what each rank does with its shard of the
# gradients before the optimizer's step.
#
# Several ranks call your function, each in a thread of its own. `gradients` is a list of float32
# tensors, this rank's shards, still multiplied by `scale` (a float). Ranks have different shapes; a
# rank may have an empty list, or tensors without elements. Divide the gradients by the scale, in
# place. Return True if the optimizer may step, which is if *no* rank has an inf or a NaN, and False
# otherwise: the same answer on every rank.
#
# `all_reduce(tensor, op=dist.ReduceOp.SUM)` does what `torch.distributed.all_reduce` does: it
# replaces the tensor, in place, by the sum over all ranks (or `dist.ReduceOp.MAX`, `MIN`, …). As
# there, every rank must call it equally often, with tensors of the same shape.


# %% exercise="may_step"
def may_step(gradients, scale, all_reduce):
    """Unscale this rank's gradients in place; True if they are finite on all ranks."""
    ### BEGIN SOLUTION
    found_inf = torch.zeros(())
    for gradient in gradients:
        gradient /= scale
        if not gradient.isfinite().all():
            found_inf.fill_(1.0)
    all_reduce(found_inf, op=dist.ReduceOp.MAX)
    return found_inf.item() == 0
    ### END SOLUTION


# %% [markdown] heading="shard_model"
# Write `shard_model(model, mesh)`: shard a model with FSDP2, in place, so that
#
# - its linear layers take BF16 and multiply by BF16 weights;
# - its norms (`nn.LayerNorm`, `nn.RMSNorm`, wherever they are) take FP32 and have FP32 weights;
# - gradients are added up in FP32;
# - the model's output is FP32, and between the steps every parameter is a shard in FP32.
#
# Use `fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(…))`. The check runs forward
# and backward in a group whose other ranks do not exist: it looks at dtypes, not at numbers.


# %% exercise="shard_model"
def shard_model(model, mesh):
    """fully_shard the model and its norms, with a policy for each; nothing is returned."""
    ### BEGIN SOLUTION
    norm_policy = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            fully_shard(module, mesh=mesh, mp_policy=norm_policy)
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)
    ### END SOLUTION


# %% [markdown] heading="few_exchanges"
# Write `few_exchanges(model, optimizer, scaler, loss_fn, batches)`: one optimizer step over several
# micro-batches, with one exchange of gradients.
#
# `model` is a `DistributedDataParallel`; `batches` is a list of pairs (x, y), at least one, of any
# sizes. Clear the gradients. For each micro-batch, run the model and `loss_fn(output, y)` under
# `torch.autocast("cpu", dtype=torch.float16)`, and the backward pass of the scaled loss, before the
# next one begins; the step is that of the *mean* of the losses. DDP may exchange gradients once
# only, and then all of them; call no collective yourself. Step and update once.


# %% exercise="few_exchanges"
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    """One step over all the micro-batches, with a single all-reduce; nothing is returned."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        last = number == len(batches)
        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ### END SOLUTION


# %% [markdown] heading="to_float8"
# Write `to_float8(x)`: a tensor in E4M3, with a scale of its own.
#
# `x` is float32, float16 or bfloat16, of any shape, with at least one element. All of it may be
# zero; else its largest magnitude is between $10^{-10}$ and $10^{10}$. Return a pair
# `(q, scale)`: `q` of the dtype `torch.float8_e4m3fn` and the shape of `x`, and `scale` a positive
# number (a float, or a tensor with one element), so that `q.float() / scale` is `x` up to the
# rounding of E4M3. Use the range: the largest `|q|` should be 448, or at least 224 if you prefer a
# power of two.


# %% exercise="to_float8"
def to_float8(x):
    """(q, scale): x times the scale, as float8_e4m3fn, and the scale."""
    ### BEGIN SOLUTION
    amax = x.float().abs().max()
    scale = torch.finfo(torch.float8_e4m3fn).max / amax if amax > 0 else torch.ones(())
    return (x.float() * scale).to(torch.float8_e4m3fn), scale
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson myths_and_clinic]] puts the claims that you have met on the web to the test, and opens the clinic.
