# %% [markdown]
# # Lesson 11: Past one eager GPU
#
# **You will be able to** compile a model under autocast and know that its gradients are right,
# recompute activations in the right dtype, train on several ranks with a scaler that they agree on,
# and say what FP8 training adds.
#
# **Time** 50 minutes. **Needs** lessons [[lesson training_loops|07]] and [[lesson losses_and_ops|08]]; no GPU. One cell starts two processes.
#
# So far one process ran one operation after the other. Here something else runs your model: a
# compiler, a second forward pass inside the backward, other processes. Each can leave the precision
# that you chose, and do so without an error.

# %%
import inspect
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from amp_lessons import plots

half, bfloat = torch.float16, torch.bfloat16

# %% [markdown]
# ## A compiled backward pass
#
# This model comes from [pytorch issue 153044](https://github.com/pytorch/pytorch/issues/153044).
# Its last layer is kept in FP32 by a disabled region, because its gradient does not fit in FP16: it
# is 4 · 16384 = 65536, and FP16 ends at 65504.


# %%
class Model(nn.Module):
    """A product in FP16, then a layer that is kept in FP32."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ones", torch.ones(4, 4))
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        y = x @ self.ones
        with torch.autocast("cpu", enabled=False):
            return self.last(y.float())


model = Model()


def gradient(function):
    """The last layer's gradient: forward under FP16 autocast, backward outside, as it should be."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=half):
        output = function(torch.ones(1, 4))
    (output * 16384).sum().backward()
    return model.last.weight.grad[0, 0].item()


# %% [markdown]
# `torch.compile` with the backend `aot_eager` *traces* forward and backward, which means that it
# writes down the operations that run, and replays the traces without a C++ compiler. **Predict:**
# does the compiled model give the eager gradient?

# %%
from torch._functorch import config as settings

print("eager:                      ", gradient(model))
print("compiled:                   ", gradient(torch.compile(model, backend="aot_eager")))
torch.compiler.reset()
with settings.patch(backward_pass_autocast="off"):
    print("compiled, backward_pass off:", gradient(torch.compile(model, backend="aot_eager")))
print("the default:                ", settings.backward_pass_autocast)

# %% [markdown]
# The forward pass was right: the region was respected. But the backward pass was traced ahead of
# time, in the middle of the forward, and so under the autocast that was on there. The setting says
# so: `"same_as_forward"` supposes that you call `backward()` under the same autocast as the
# forward. [[Lesson autocast_regions]] told you not to. The inner, disabled region does not help: it is left before
# the backward is traced ([issue 179804](https://github.com/pytorch/pytorch/issues/179804)). This is
# torch 2.13; [PR 177287](https://github.com/pytorch/pytorch/pull/177287) proposes `"off"` for a
# later version.
#
# An inf would at least be seen by a scaler. **Predict:** what is lost with BF16, which has the
# range? Here the question is whether the gradient of the FP32 layer has more than BF16's 8
# significant bits.


# %%
def keeps_bits(function):
    """Whether the gradient has bits that BF16 cannot hold."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=bfloat):
        output = function(torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
    (output * 1.2345).sum().backward()
    found = model.last.weight.grad
    return not torch.equal(found, found.to(bfloat).float())


print("eager:                      ", keeps_bits(model))
torch.compiler.reset()
print("compiled:                   ", keeps_bits(torch.compile(model, backend="aot_eager")))
torch.compiler.reset()
with settings.patch(backward_pass_autocast="off"):
    print("compiled, backward_pass off:", keeps_bits(torch.compile(model, backend="aot_eager")))

# %% [markdown]
# No error, no inf: an "FP32 layer" with a BF16 gradient.
#
# Compiling is lazy: it happens at the first call, and that is when the setting is read.
# **Predict:** what does each of these two give?

# %%
torch.compiler.reset()
with settings.patch(backward_pass_autocast="off"):
    early = torch.compile(model, backend="aot_eager")
print("set around torch.compile only:    ", gradient(early))

torch.compiler.reset()


@torch.compile(backend="aot_eager")
def forward(x):
    with torch.autocast("cpu", dtype=half):
        return model(x)


model.zero_grad()
(forward(torch.ones(1, 4)) * 16384).sum().backward()
print("autocast in the compiled function:", model.last.weight.grad[0, 0].item())

# %% [markdown]
# So there are two cures. Set `torch._functorch.config.backward_pass_autocast = "off"` once, at the
# top of the script (`_functorch` is not public: the name may change with the version). Or
# put the autocast region *inside* what is compiled: where the tracing begins, none is on. With
# either, compare the gradients of one batch with eager's once. Without it you would never know.

# %% [markdown]
# ## Checkpointing: a forward in the backward
#
# Activation checkpointing keeps a block's input, forgets what is inside, and runs the block again
# when the backward pass gets there. `Witness` writes down in which dtype it was run. **Predict:**
# how many bytes are saved for the backward pass, plain and checkpointed? And in which dtype does
# the second run happen, since `backward()` stands outside of autocast?


# %%
class Witness(nn.Module):
    """Passes its input on, and remembers its dtype."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(str(x.dtype).removeprefix("torch."))
        return x


torch.manual_seed(0)
witness = Witness()
block = nn.Sequential(nn.Linear(32, 64), witness, nn.GELU(), nn.Linear(64, 32))
images = torch.randn(256, 32)


# %%
def run(function):
    """Forward under FP16 autocast, backward outside; the gradients, and the bytes saved."""
    witness.seen, kept = [], {}
    block.zero_grad()

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with torch.autocast("cpu", dtype=half), hooks:
        output = function(images)
    output.float().square().mean().backward()
    return [p.grad.clone() for p in block.parameters()], sum(kept.values())


plain, bytes_plain = run(block)
print("plain:       ", bytes_plain, "bytes, run in", witness.seen)
again, bytes_again = run(lambda x: checkpoint(block, x, use_reentrant=False))
print("checkpointed:", bytes_again, "bytes, run in", witness.seen)
print("the same gradients:", all(map(torch.equal, plain, again)))

# %% [markdown]
# Only the input is kept, and the second run is in FP16 again: `checkpoint` notes the autocast state
# (on or off, dtype, cache) at the first run and restores it for the second. That is a service and
# no law of nature. Here is a checkpoint as people write it themselves, in a reversible layer or a
# memory-saving attention. **Predict:** what does the witness see now?


# %%
class Recompute(torch.autograd.Function):
    """Keep x, forget the rest, run the function again in the backward pass."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function, ctx.x = function, x
        return function(x)  # autograd is off inside

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.function(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


by_hand, _ = run(lambda x: Recompute.apply(block, x.requires_grad_()))
print("run in", witness.seen)
print("the same gradients:", all(map(torch.equal, plain, by_hand)))

# %% [markdown]
# The second run was in FP32: the gradients are those of a computation that never took place, and it
# costs the memory and the time that autocast was to save. (The gradient that comes in is FP16, the
# output of the second run FP32: torch casts the one to the other without a word.) The mend is
# [[lesson losses_and_ops]]'s: `custom_fwd` notes the autocast state, `custom_bwd` restores it. **Predict:** what
# does the witness see now?

# %%
mended = type(
    "Mended",
    (torch.autograd.Function,),
    {
        "forward": staticmethod(torch.amp.custom_fwd(Recompute.forward, device_type="cpu")),
        "backward": staticmethod(torch.amp.custom_bwd(Recompute.backward, device_type="cpu")),
    },
)
by_hand, _ = run(lambda x: mended.apply(block, x.requires_grad_()))
print("run in", witness.seen)
print("the same gradients:", all(map(torch.equal, plain, by_hand)))

# %% [markdown]
# Back to torch's own checkpoint: its `context_fn` gives one context for each run. **Predict:** what
# happens if the second run is in another dtype?

# %%
from contextlib import nullcontext

from torch.utils.checkpoint import CheckpointError


def other_dtype():
    return nullcontext(), torch.autocast("cpu", enabled=False)


try:
    run(lambda x: checkpoint(block, x, use_reentrant=False, context_fn=other_dtype))
except CheckpointError as error:
    print(str(error).split(": ", 1)[1].splitlines()[0])

# %% [markdown]
# `use_reentrant=False` compares the shapes and dtypes of what the second run makes with those of
# the first one, and stops. **Predict:** what does the old `use_reentrant=True` do with an input
# that needs no gradient, such as a batch of images?

# %%
images = images.detach()  # the checkpoint by hand had asked for a gradient
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    output = checkpoint(block, images, use_reentrant=True)
print(caught[0].message, "->", output.requires_grad)

# %% [markdown]
# It trains nothing, with no more than a warning. Pass False, always: without the argument torch
# takes True, and warns that this will become an error.
#
# ## Two ranks
#
# With several GPUs each has a process of its own. A process of such a group is called by its
# number, its *rank*: rank 0, rank 1. PyTorch's command `torchrun` starts them, and a library
# carries tensors between them: NCCL between GPUs, gloo between CPUs. An operation that all ranks
# carry out together is a *collective*. The most important is the *all-reduce*: each rank brings a
# tensor, and each gets the sum of all of them.
#
# There are two ways to spread the training of one model over ranks:
#
# - DDP (`DistributedDataParallel`) keeps a copy of the model on each rank, and each rank has
#   another part of the batch. During the backward pass the gradients are *averaged* by all-reduces.
# - FSDP2 (`fully_shard`) cuts each parameter up and keeps one piece, a *shard*, on each rank. It
#   fetches the others' shards for the forward, and leaves to each rank the averaged gradient of its
#   shard.
#
# The course's script for both is `amp_lessons/distributed/train.py`. This is its training step
# (through `hooks` the experiments below interfere with it; a real run has none):

# %%
from amp_lessons.distributed import launch, train

print(inspect.getsource(train.take_step).split('"""')[2].strip("\n"))

# %% [markdown]
# Nothing in it knows how many ranks there are: scale, backward, step, update, over the
# micro-batches (the parts of an accumulated batch) of [[lesson training_loops]]. What is new is done by the model.
#
# The same script runs on two CPU cores, on one machine with 8 GPUs, and on two of them:
#
# ```
# torchrun --nproc-per-node 2 -m amp_lessons.distributed.train --parallel ddp --precision fp16
# torchrun --nproc-per-node 8 -m amp_lessons.distributed.train --parallel fsdp2 --precision bf16
# torchrun --nnodes 2 --nproc-per-node 8 --rdzv-id 11 --rdzv-backend c10d \
#     --rdzv-endpoint HOST:29500 -m amp_lessons.distributed.train --parallel fsdp2
# ```
#
# The next cell starts two ranks on this machine, on the CPU or on its GPUs if it has two, and runs
# all the experiments of this lesson. It takes some seconds: each rank imports torch.

# %%
ranks = launch("amp_lessons.distributed.experiments", ranks=2, timeout=55)
print("ranks:", [rank.number for rank in ranks])
print("experiments:", ", ".join(ranks[0].reports))


# %%
def show(name):
    """What each rank saw in each of five steps, and whether the ranks end with one model."""
    for rank in ranks:
        for record in rank.reports[name]["steps"]:
            finite = "finite" if record["finite"] else "NOT FINITE"
            step = "skipped" if record["skipped"] else "stepped"
            print(
                f"rank {rank.number} step {record['step']}  own gradients {finite:10}  {step}  "
                f"scale {record['scale']:g}"
            )
    sums = {rank.reports[name]["checksum"] for rank in ranks}
    print("one model on both ranks:", len(sums) == 1)


# %% [markdown]
# ## One rank overflows: DDP
#
# In step 2 the loss of rank 1 is a million times too large, and its scaled gradients overflow.
# Rank 0's batch is fine. **Predict:** what does each rank do? They do not talk about it: each has a
# GradScaler of its own, an ordinary one.

# %%
show("ddp loss")

# %% [markdown]
# Both skip, both halve the scale, and nobody had to tell rank 0. The all-reduce did: DDP averages
# the *scaled* gradients, during the backward pass and so before any scaler looks. An inf on one
# rank is an inf in the average, on every rank. From equal gradients, equal scalers make equal
# decisions. That is all the reason there is, and it is as strong as this: the gradients must be
# equal where the scaler looks.
#
# **Predict:** what if one element of rank 1's gradient becomes inf *after* the exchange? (By a line
# of yours that changes gradients, or in a parameter that DDP does not know.)

# %%
show("ddp gradient")

# %% [markdown]
# Rank 0 steps, rank 1 skips. From here there are two models, and their gradients, scaled by 65536
# on one rank and by 32768 on the other, are averaged into something that is neither. No error,
# ever. DDP copies rank 0's parameters to the others when it is built, and never compares them
# again.
#
# ## One rank overflows: FSDP2
#
# With FSDP2 the gradients are *not* equal: each rank holds another shard.

# %%
plots.where_the_inf_is(ranks=2, parameters=6, bad=4)

# %% [markdown]
# As before, one element that rank 1 holds becomes inf after the exchange. **Predict:** what does
# rank 0 do, in whose shard everything is finite?

# %%
show("fsdp2 gradient")

# %% [markdown]
# It skips too. The scaler is `torch.amp.GradScaler` again, and it has not a line about ranks. The
# gradients are `DTensor`s: tensors of which each rank holds a part, and which know where the others
# are. The operation with which a scaler unscales and looks for inf
# (`_amp_foreach_non_finite_check_and_unscale_`) is dispatched by DTensor to
# [`found_inf_reduce_handler`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_dispatch.py),
# which takes the maximum of `found_inf` over the ranks. It came with [PR
# 132816](https://github.com/pytorch/pytorch/pull/132816). The parameters of FSDP1, the older
# `FullyShardedDataParallel`, are plain tensors; there it takes
# [`ShardedGradScaler`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/sharded_grad_scaler.py),
# which all-reduces `found_inf` itself. Without it two ranks can come apart as in the last section.
# So they can with any sharding of your own: you write its agreement in the exercises.
#
# **Predict:** what if only half of a model is sharded, and one optimizer holds both halves?

# %%
print(ranks[0].reports["fsdp2 half"].split(", need")[0])

# %% [markdown]
# The scaler's operation takes all gradients at once, and refuses the mixture. Call `fully_shard` on
# the model itself too, last.
#
# ## What FSDP2 casts
#
# Our script gives FSDP2 a policy instead of an autocast region: `MixedPrecisionPolicy(
# param_dtype=torch.float16, reduce_dtype=torch.float32, output_dtype=torch.float32)`.
# **Predict:** in which dtype are the parameters during the forward pass, and between the steps?

# %%
for place, dtype in ranks[0].reports["fsdp2 dtypes"].items():
    print(f"{place:26} {dtype}")

# %% [markdown]
# The shards are FP32: they are the master weights of [[lesson amp_from_scratch]], here in earnest. What is fetched
# for the forward pass is a 16-bit copy, and half the bytes travel. But this is a policy for
# *modules* and not for operations: everything inside runs in `param_dtype`, a softmax or a norm
# too, with no list that protects them. `output_dtype` gives the loss its FP32 back; a norm gets a
# `fully_shard` with a policy of its own, which you write in the exercises.
#
# ## Adding up gradients
#
# Averaging over ranks is a sum and a division, and the sum has the dtype that you give it.
# **Predict:** eight ranks have the gradient 10000, in FP16. What is their mean? And with the
# division first, what becomes of gradients of $2^{-24}$?

# %%
large, small = torch.full((8,), 10_000.0, dtype=half), torch.full((8,), 2.0**-24, dtype=half)
for name, gradients in (("large", large), ("small", small)):
    last = first = torch.zeros((), dtype=half)
    for one in gradients:
        last, first = last + one, first + one / 8
    print(f"{name}: divide last {(last / 8).item():g}, divide first {first.item():g}", end=", ")
    print(f"in FP32 {gradients.float().mean().item():g}")

# %% [markdown]
# No order is safe in FP16. DDP divides first, but its gradients are FP32, like its parameters (the
# [`fp16_compress_hook`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py)
# changes that: it casts, then divides, and scaled gradients above 65504 are lost). FSDP2 in FP16
# divides by about the root of the number of ranks before and by the rest after
# ([`_get_gradient_divide_factors`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)).
# Without a `reduce_dtype` it reduces in `param_dtype`. **Predict:** the mean over two ranks of 256
# and 1, with `param_dtype` BF16? Of $2^{-24}$ and $2^{-24}$, with FP16?

# %%
for param_dtype, pair, without, with_float32 in ranks[0].reports["reduce"]:
    print(f"{param_dtype:8} {pair[0]:g} and {pair[1]:g}: {without:g}", end=", ")
    print(f"with reduce_dtype=torch.float32 {with_float32:g}")

# %% [markdown]
# BF16 loses the half, FP16 the whole. `reduce_dtype=torch.float32` costs twice the bytes in that
# exchange, and is the setting to begin with.
#
# ## Accumulating with several ranks
#
# With four micro-batches to a step three exchanges are wasted. `no_sync()` leaves them out:
# gradients add up locally, and the last backward exchanges the sum. **Predict:** DDP's all-reduces
# after each of four micro-batches: plain; with `no_sync()` around the first three; with it around
# their `backward()` only.

# %%
for loop, counts in ranks[0].reports["all-reduces"].items():
    print(f"{loop:17} {counts}")

# %% [markdown]
# DDP decides in the *forward* pass whether the backward will exchange: `no_sync()` goes around
# both. FSDP2 has `model.set_requires_gradient_sync(False)`; with it the sum is kept in
# [`reduce_dtype`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html) too. For
# the scaler nothing changes from [[lesson training_loops]]: one scale for the whole group, the loss divided by the
# number of micro-batches, one `step` and one `update` at the end. An inf in a batch that was not
# exchanged stays in the local sum, and reaches everybody with the last exchange. But step on
# gradients that were never exchanged, and each rank decides alone again.
#
# `nn.DataParallel`, the old way, has threads instead of ranks, and hands autocast to them without
# its dtype ([[lesson autocast_regions]]). Decorate `forward` with the region, or put the region inside it; better,
# use DDP.
#
# ## FP8's idea
#
# Hopper's tensor cores multiply 8-bit floats at [twice the rate of
# FP16](https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/). E4M3 has 3 bits of
# mantissa and ends at 448; E5M2 has 2 and ends at 57344 ([[lesson number_formats]]). torch has no FP8 autocast:
# most operations do not know the dtype, and each tensor needs a scale of its own, not one for the
# loss. (NVIDIA's [Transformer
# Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html) has one,
# for its own layers.) **Predict:** weights of size 0.001, cast to E4M3. How many survive?

# %%
from amp_lessons.formats import FP8_E4M3, FP8_E5M2

e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
torch.manual_seed(0)
weights, inputs = torch.randn(64, 128) * 1e-3, torch.randn(128, 32)
stored = weights.to(e4m3).float()
print("most become zero:", (stored == 0).float().mean().item() > 0.5)
print("by hand the same:", torch.equal(stored, FP8_E4M3.round(weights)))

# %% [markdown]
# The smallest number of E4M3 is $2^{-9}$, about 0.002, and what is below half of it becomes zero.
# **Predict:** what becomes of 1000, of a million and of inf, in torch's casts to the two formats?

# %%
extremes = torch.tensor([1000.0, 1e6, torch.inf])
print("E4M3:", extremes.to(e4m3).float().tolist(), " E5M2:", extremes.to(e5m2).float().tolist())

# %% [markdown]
# Torch 2.13's cast to E4M3 *saturates*, also inf, on a CPU: an overflow leaves no inf for a scaler
# to find. Its cast to E5M2 does not.
#
# So before the cast each tensor is multiplied by a scale that puts its largest magnitude (amax) on
# the format's largest number; the scales are divided out of the product. `amp_lessons/float8.py`
# does that by hand. **Predict:** how large is the error of a matmul without scales and with them,
# against BF16's?

# %%
from amp_lessons.float8 import float8_matmul, quantise, relative_error, scale_for

exact = weights.double() @ inputs.double()
a, b = scale_for(weights.abs().max()), scale_for(inputs.abs().max())
errors = {
    "E4M3 without scales": relative_error(float8_matmul(weights, inputs, 1.0, 1.0), exact),
    "E4M3 with scales": relative_error(float8_matmul(weights, inputs, a, b), exact),
    "BF16": relative_error(weights.to(bfloat) @ inputs.to(bfloat), exact),
}
for name, error in errors.items():
    print(f"{name:20} {'above' if error > 0.1 else 'below'} 10%", end=", ")
    print(f"{'above' if error > 0.01 else 'below'} 1%")

# %% [markdown]
# `torch.nn.functional.scaled_mm` is the real thing: FP8 in, a wide sum inside, the scales divided
# out (it takes their reciprocals). On CUDA it wants compute capability 8.9 or more; torch 2.13 also
# has it on a CPU, for the numbers and not for the speed. **Predict:** does it agree with ours?

# %%
from torch.nn.functional import ScalingType, scaled_mm

whole = ScalingType.TensorWise
left, right = (weights * a).to(e4m3), (inputs * b).to(e4m3).t().contiguous().t()
product = scaled_mm(left, right, 1 / a, whole, 1 / b, whole, output_dtype=torch.float32)
print("equal inputs: ", torch.equal(left.float(), quantise(weights, a)))
ours = float8_matmul(weights, inputs, a, b)
print("equal product, up to float32's rounding:", relative_error(product, ours) < 1e-5)

# %% [markdown]
# How exact must the scale be? **Predict:** which hurts more, a scale that is 4 times too small or
# one that is 4 times too large?

# %%
exponents = range(-16, 9)
plots.error_by_scale(
    exponents,
    {
        format.name: [
            relative_error(
                float8_matmul(weights, inputs, scale_for(weights.abs().max(), format) * 2.0**e,
                              scale_for(inputs.abs().max(), format), format),
                exact,
            )
            for e in exponents
        ]
        for format in (FP8_E4M3, FP8_E5M2)
    },
    title="A scale may be too small by far, and not too large at all",
)  # fmt: skip

# %% [markdown]
# FP8 is a floating-point format: a scale that is too small costs nothing until the small numbers
# become subnormal. A scale that is too large cuts off the large ones at once. E5M2 has the wider
# valley and the higher floor, which is why the usual recipe is E4M3 for weights and activations and
# E5M2 for gradients ([arXiv 2209.05433](https://arxiv.org/abs/2209.05433)).
#
# *Dynamic* scaling takes the amax of the tensor itself, which is one more pass over it. *Delayed*
# scaling takes the largest amax of the last tensors, and so knows the scale beforehand.
# **Predict:** 40 tensors of one size, but those from 20 to 24 are 50 times as large. Where does
# delayed scaling err?

# %%
from amp_lessons.float8 import DelayedScale

history = DelayedScale(length=8)
scales, bad = {"delayed": [], "dynamic": []}, {"delayed": [], "dynamic": []}
for number in range(40):
    tensor = torch.randn(64, 64) * (50.0 if 20 <= number < 25 else 1.0)
    choices = {"delayed": history.next(tensor), "dynamic": scale_for(tensor.abs().max())}
    for name, scale in choices.items():
        scales[name].append(scale.log2().item())
        if relative_error(quantise(tensor, scale) / scale, tensor) > 0.1:
            bad[name].append(number)
for name, numbers in bad.items():
    print(name, "errs by more than 10% at", numbers)

# %%
plots.curves(
    scales,
    title="A scale from the past, and tensors that grow",
    xlabel="tensor",
    ylabel="exponent of the scale",
    alt="The scales of 40 FP8 tensors, as exponents of two. Dynamic scaling falls by five to six at "
    "tensor 20 and rises again at 25. Delayed scaling falls one tensor later, at 21, and "
    "rises again at 33 only.",
)

# %% [markdown]
# At the jump upwards it saturates, once. After the jump down it is too small for eight tensors, and
# that costs nothing, as the valley showed.
#
# One scale for a tensor has an enemy: the outlier. **Predict:** one weight is set to 500, beside
# others of size 0.001. What happens to the *other* rows of the product, with one scale for the
# tensor and with one for each row?

# %%
spoiled = weights.clone()
spoiled[0, 0] = 500.0
rows = slice(1, None)
exact = (spoiled.double() @ inputs.double())[rows]
by_tensor = scale_for(spoiled.abs().max())
by_row = scale_for(spoiled.abs().amax(dim=1, keepdim=True))
for name, scale in (("a tensor", by_tensor), ("a row", by_row)):
    error = relative_error(float8_matmul(spoiled, inputs, scale, b)[rows], exact)
    print(f"one scale for {name:8}: error of the other rows below 5%: {error < 0.05}")

# %% [markdown]
# In practice you do not write this.
# [torchao](https://docs.pytorch.org/ao/stable/api_ref_float8.html) is the library:
# `convert_to_float8_training(model)` swaps `nn.Linear` for a layer that casts its three matmuls,
# with recipes for tensor-wise and row-wise scales; it is meant to be compiled, goes with FSDP2
# (whose all-gather may then travel in FP8), and dropped delayed scaling for dynamic ([issue
# 1680](https://github.com/pytorch/ao/issues/1680)). It is not installed here, and its speed is not
# measured here: it takes a GPU with FP8 tensor cores. Its documentation quotes [speed-ups of up to
# 1.5 times](https://docs.pytorch.org/ao/stable/pretraining.html) on 512 GPUs.

# %% [markdown]
# ## When it goes wrong past one eager GPU
#
# | symptom | cause | remedy |
# |---|---|---|
# | gradients inf or coarse, compiled only | backward traced under autocast | `backward_pass_autocast = "off"`, or autocast inside |
# | `CheckpointError`: different metadata | the second run has another dtype | the same regions in both runs |
# | gradients slightly off, custom recompute | autocast state not restored | `custom_fwd` and `custom_bwd` |
# | scales differ between ranks | `found_inf` was not shared | equal gradients, DTensors, or an all-reduce of `found_inf` |
# | `got mixed torch.Tensor and DTensor` in the scaler | one optimizer with sharded and plain parameters | shard the root module too |
# | a rank hangs | a collective that not all ranks call | no collective behind an `if` on local data |
# | accumulation as slow as without | forward outside `no_sync()` | around forward and backward |

# %% [markdown]
# ## Recap
#
# 1. A compiled backward is traced under the forward's autocast: switch that off, or compile the
#    region.
# 2. A recomputation needs the autocast state of the first run; torch's checkpoint keeps it.
# 3. DDP's scalers agree because their gradients are equal, and for no other reason.
# 4. FSDP2 shares `found_inf` through DTensor; its policy casts modules, so reduce in FP32 and mind
#    norms.
# 5. FP8 is autocast's idea with a scale for each tensor; too small a scale is cheap, too large is
#    not.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "past_one_gpu.compiled_backward",
    "past_one_gpu.why_all_ranks_skip",
    "past_one_gpu.scale_for_e4m3",
)

# %% [markdown]
# **Next:** [[exercises past_one_gpu|six exercises]]: compiled equals eager, a
# checkpointed block, ranks that agree, a policy for FSDP2, an accumulation with few exchanges, and
# a tensor in FP8. None of them starts a second process. Then [[lesson myths_and_clinic]]: myths, tested, and the
# clinic.
