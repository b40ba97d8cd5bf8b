# %% [markdown]
# # Lesson 09: Memory
#
# **You will be able to** say where the bytes of a training step are, predict whether mixed
# precision needs more of them or fewer, read a memory report without being misled by it, and
# choose the lever that helps.
#
# **Time** 45 minutes. **Needs** [[lesson training_loops]]; no GPU.
#
# "Mixed precision halves the memory" is said often and shown rarely. One run that the course
# started from, PyTorch's own recipe at a batch of 4096, needed *more* with it. Here the bytes are
# counted one by one. For that nothing need be allocated: `training_memory` runs a model on fake
# tensors, which have a shape and a dtype and no data.

# %%
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint_sequential

from amp_lessons import models, plots
from amp_lessons.memory import (
    allocator_check,
    crossover_batch,
    optimizer_bytes,
    training_memory,
)

bfloat = torch.bfloat16

# %% [markdown]
# ## Bytes a parameter
#
# A model of a million parameters, in float32. **Predict:** how many bytes for each parameter do
# weight, gradient and optimizer take after a step of SGD, of SGD with momentum, of Adam? How many
# under autocast?

# %%
makers = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
}
for name, make in makers.items():
    for amp in (False, True):
        model = nn.Linear(1000, 1000, bias=False)
        optimizer = make(model.parameters())
        with torch.autocast("cpu", bfloat, enabled=amp):
            loss = mse_loss(model(torch.ones(4, 1000)), torch.zeros(4, 1000))
        loss.backward()
        optimizer.step()
        parts = (model.weight.nbytes, model.weight.grad.nbytes, optimizer_bytes(optimizer))
        print(f"{name:9} autocast {amp!s:5}:", *(round(part / 1e6) for part in parts), "bytes")

# %% [markdown]
# 8, 12 and 16, with autocast and without. Autocast changes no parameter: weights, gradients and
# Adam's two averages stay in float32. A billion parameters under Adam are 16 GB before the first
# image is loaded, in mixed precision too. "Smaller model footprints" is a myth, and so is the
# half-size checkpoint.
#
# (Papers on large models count 16 bytes too, and mean others: 2 for a 16-bit weight, 2 for its
# gradient, 12 for a float32 copy and Adam, as [ZeRO](https://arxiv.org/abs/1910.02054) does. Such a
# model keeps master weights beside 16-bit ones. `torch.amp` does not.)
#
# ## What is kept for backward
#
# The rest grows with the batch: what the forward pass leaves behind for the backward pass.
# `saved_tensors_hooks` shows each tensor that autograd keeps. **Predict:** a network of two
# layers, 64 to 32 to 16, with a batch of 8. What is kept in float32? And what under autocast?

# %%
torch.manual_seed(0)
small = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
images, wanted = torch.randn(8, 64), torch.randn(8, 16)


def saved_by(amp):
    """Shape and dtype of each storage that autograd keeps, the parameters' left out."""
    own = {p.data_ptr() for p in small.parameters()}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = f"{tuple(tensor.shape)} {str(tensor.dtype)[6:]}"
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", bfloat, enabled=amp):
        loss = mse_loss(small(images), wanted)
    return loss, list(kept.values())


print("float32 :", *saved_by(False)[1], sep="\n    ")
print("autocast:", *saved_by(True)[1], sep="\n    ")

# %% [markdown]
# In float32: the batch, the hidden layer, the output, the target. Under autocast the hidden layer
# is 16 bit, half the bytes: of what is kept, that is all that mixed precision saves. And three
# things are new. The batch is kept a second time, as its 16-bit cast. The output is kept in float32
# for the loss, which computes there, beside the 16-bit output if your loop still holds it. And
# there is a *weight*: the second layer's 16-bit copy, transposed, which its backward needs. (The
# first layer's backward needs none: nobody asks for the gradient of the batch. The gradients of
# layers' outputs are 16 bit too, but they pass.)
#
# ## The cast cache
#
# Autocast casts each weight once and keeps the copy until the region ends ([[lesson autocast_regions]]): two bytes
# for every parameter that a 16-bit layer uses, *added* to the four of the float32 weight. Copies
# do not grow with the batch; savings do. **Predict:** eight layers of width 256, once with a batch
# of 64 and once of 4096. Where does AMP need less?


# %%
def mlp_memory(batch, precision, layers=8, width=256, optimizer="sgd"):
    """Bytes of a step of an MLP with a mean squared error."""
    with torch.device("meta"):  # shapes without data
        network, (inputs,) = models.linear_stack(width, layers, batch)
        target = torch.empty_like(inputs)
    choices = {"precision": precision, "optimizer": optimizer}
    return training_memory(network, inputs, loss=mse_loss, target=target, **choices)


print(mlp_memory(64, "fp32"), mlp_memory(64, "amp bf16"), sep="\n\n")

# %%
for batch in (64, 256, 1024, 4096):
    fp32, amp = (mlp_memory(batch, precision) for precision in ("fp32", "amp bf16"))
    kept = (amp.activations + amp.cast_cache) / fp32.activations
    print(f"batch {batch:4}: activations and casts {kept:.2f} times, ", end="")
    print(f"everything {amp.total / fp32.total:.2f} times")

# %%
steps = {
    f"{name}, batch {batch}": mlp_memory(batch, precision)
    for batch in (64, 1024)
    for name, precision in (("FP32", "fp32"), ("AMP", "amp bf16"))
}
plots.memory_bars(steps, title="The casts come first, the savings with the batch")

# %% [markdown]
# With a small batch the copies cost more than the activations save: AMP needs more memory. With a
# large batch it is the other way round.
#
# ## The crossover batch
#
# What AMP adds is fixed; what it saves is so many bytes for each example. So the batch at which it
# begins to pay is a quotient. **Predict:** with twice the width, does the crossover come earlier or
# later? And with twice the layers?

# %%
for layers, width in ((8, 256), (8, 512), (16, 256), (3, 256)):
    sizes = {"layers": layers, "width": width}
    fp32 = [mlp_memory(batch, "fp32", **sizes) for batch in (1, 2)]
    amp = [mlp_memory(batch, "amp bf16", **sizes) for batch in (1, 2)]
    print(f"{layers:2} layers of {width}: AMP pays from batch", crossover_batch(fp32, amp))

# %% [markdown]
# Later with the width: weights grow with its square, activations only with itself. Earlier with
# the depth: the two tensors that AMP adds at the ends, the cast batch and the float32 output,
# weigh less among more layers. With three layers they eat up everything that is saved, and AMP
# *never* pays. Remember that one.
#
# ## The recipe's own numbers
#
# The [recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) trains three
# layers of 4096, and one run of it at batch 4096 printed a peak of 7,533,332,992 bytes in float32
# and 7,634,019,840 with AMP. (These two numbers are quoted: the GPU was not named, and we have not
# measured them.) The page says that mixed precision reduces memory. **Predict:** what fills those
# seven gigabytes? And what is the difference?

# %%
fp32_peak, amp_peak = 7_533_332_992, 7_634_019_840  # quoted
data = 50 * 2 * 4096 * 4096 * 4  # 50 batches and 50 targets, all on the GPU before the start
copies = 3 * (4096 * 4096 + 4096) * 2  # each weight and bias once more, in float16
print(f"data                  {data:,}")
print(f"AMP over FP32         {amp_peak / fp32_peak:.3f}")
print(f"the same without data {(amp_peak - data) / (fp32_peak - data):.3f}")
print(f"growth                {amp_peak - fp32_peak:,}")
print(f"16-bit copies         {copies:,}, off by {copies - (amp_peak - fp32_peak)}")

# %%
recipe = {"batch": 4096, "layers": 3, "width": 4096}
fp32, amp = (mlp_memory(precision=precision, **recipe) for precision in ("fp32", "amp fp16"))
print("activations equal:", amp.activations == fp32.activations)
print(f"total growth:      {amp.total - fp32.total:,}")

# %% [markdown]
# Nine tenths of the figure are the data, which the program put on the GPU before it began. Without
# them AMP needed 12% more, not 1%. The growth is, to 1,024 bytes (two of the blocks of 512 in which
# the allocator counts), the 16-bit copies of all weights and biases; for in a network of three
# layers the activations come out *equal*.
#
# And the rest of the 822 MB? A weight, an activation and a gradient have the same size here, 64
# MiB. **Predict:** what is the loss's own size in memory? And what does a notebook keep alive from
# the run before?

# %%
loss = mse_loss(torch.randn(64, 100), torch.randn(64, 100))
print("mse_loss:", loss.nbytes, "bytes of number, in", loss.untyped_storage().nbytes())
unit, network = 4096 * 4096 * 4, 3 * (4096 * 4096 + 4096) * 4
blocks = {
    "this network and the one before": 2 * network,
    "two hidden layers and the output": 3 * unit,
    "this loss, the one before, a temporary": 3 * unit,
    "two cuBLAS workspaces": 2 * (2 * 4096 + 8 * 16) * 1024,
}
for name, count in blocks.items():
    print(f"{name:40}{count:>13,}")
print(f"{'left of the peak':40}{fp32_peak - data - sum(blocks.values()):>13,}")

# %% [markdown]
# Five blocks of 512 bytes are left. `mse_loss` leaves its number in a buffer as large as the
# output, and the name `loss` of the run before keeps that buffer and, through its graph, the whole
# *old network* until the first new loss replaces it. (A workspace is scratch memory for cuBLAS,
# NVIDIA's library of matrix products. PyTorch [gives
# it](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/cuda/CublasHandlePool.cpp)
# `:4096:2:16:8`, that is 2 × 4096 + 8 × 16 KiB, and 32 MiB on Hopper and Blackwell.) This is an
# account that fits, and no measurement; but it says why a peak from a notebook needs a fresh
# kernel. The difference of the two runs is free of all that.
#
# So take the data out before you compare, and compare at the batch that you train with.
#
# ## "30 to 50% less memory"
#
# Another promise found on the web. **Predict:** for each of these models under Adam, what is AMP's
# memory over FP32's? By CUDA's rules, with bfloat16.

# %%
examples = {
    "MLP, batch 32": (models.mlp, {"batch": 32}),
    "CNN, batch 64": (models.cnn, {"batch": 64}),
    "transformer, batch 16": (models.transformer_encoder, {"batch": 16, "length": 64}),
    "GPT-2, batch 1": (models.gpt2, {"batch": 1}),
    "GPT-2, batch 8": (models.gpt2, {"batch": 8}),
}
for name, (make, sizes) in examples.items():
    with torch.device("meta"):
        network, inputs = make(**sizes)
    choices = {"optimizer": "adam", "device": "cuda"}
    fp32 = training_memory(network, *inputs, **choices)
    amp = training_memory(network, *inputs, precision="amp bf16", **choices)
    print(f"{name:22} {amp.total / fp32.total:.2f} times, model states", end=" ")
    print(f"{fp32.model_states / fp32.total:.0%} of FP32")

# %% [markdown]
# From "more" to "half", by the share of what depends on the batch. Where the *model states*, that
# is parameters, gradients and Adam's averages, fill the memory, autocast cannot help. Try your own
# sizes; predict before you change a field:
#
# - GPT-2 XL with Adam: from which batch are activations more than half of FP32's bytes?
# - The recipe's MLP with a fourth layer: from which batch on does AMP pay?

# %% tags=["live"]
from amp_lessons.widgets import MemoryCalculator

MemoryCalculator()

# %% [markdown]
# ## A model stored in BF16
#
# `model.to(torch.bfloat16)` halves what autocast leaves alone. **Predict:** by what factor does the
# memory of a step fall? And what does a weight of 1 become in 100 steps of 0.001?

# %%
for precision in ("fp32", "amp bf16", "bf16"):
    memory = mlp_memory(64, precision, optimizer="adam")
    each = memory.model_states / (memory.parameters // (2 if precision == "bf16" else 4))
    print(f"{precision:9} {memory.total:>10,} bytes, {each:.0f} a parameter")
for dtype in (torch.float32, bfloat):
    weight = torch.ones((), dtype=dtype)
    for _ in range(100):
        weight -= 0.001
    print(dtype, round(weight.item(), 3))

# %% [markdown]
# Half of everything, and a weight that does not move: steps under half an ulp are lost ([[lesson how_numbers_break]]).
# That is why mixed precision keeps float32 weights, and why a BF16-stored model is for inference,
# or for optimizers that are made for it (stochastic rounding, or a compensation as in `kahan_sum`).
#
# ## Gradients between steps
#
# Gradients need not be there all the time. **Predict:** how many bytes of gradients are alive after
# `zero_grad()`? The recipe's comment says that `set_to_none=True` helps; what is the default?

# %%
import inspect

default = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default
print("set_to_none by default:", default)
optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
for to_none in (False, True):
    saved_by(False)[0].backward()
    optimizer.zero_grad(set_to_none=to_none)
    alive = sum(p.grad.nbytes for p in small.parameters() if p.grad is not None)
    print(f"set_to_none={to_none}: {alive} bytes of gradients stay")

# %% [markdown]
# The default has been True since
# [2.0](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html):
# nothing to gain. Gradients are freed before the forward pass fills the memory with activations,
# and come back while backward empties it. So a peak is not the sum of all parts: some are not there
# at the same time, and temporary results come on top. The sum is what you plan with.
#
# ## What the allocator says
#
# On a GPU, `torch.cuda.memory_allocated()` is what tensors hold now, `max_memory_allocated()` the
# most since the last `torch.cuda.reset_peak_memory_stats()`. (`reset_max_memory_allocated` is its
# [deprecated](https://docs.pytorch.org/docs/stable/generated/torch.cuda.reset_max_memory_allocated.html)
# name: it warns, and calls it.) `memory_reserved()` says more: what the allocator keeps for later
# too. `nvidia-smi` says still more, for it counts what CUDA itself takes. **Predict:** by how much
# will the allocator's figures differ from the count?

# %% tags=["live"]
network, (inputs,) = models.linear_stack(1024, 8, 2048)
target = torch.randn(2048, 1024)
for precision in ("fp32", "amp fp16"):
    print(precision)
    print(allocator_check(network, inputs, precision=precision, loss=mse_loss, target=target))

# %% [markdown]
# On a machine with no CUDA this says "not measured here". On one that has it, expect a difference
# of a few blocks of 512 bytes and of cuBLAS's workspaces, 8 or 32 MiB each.
#
# ## The next lever
#
# Activations can also be thrown away and computed again in backward:
# [checkpointing](https://docs.pytorch.org/docs/stable/checkpoint.html). **Predict:** sixteen layers
# cut into four segments: what share of the activations is left? And with autocast on top?


# %%
class Checkpointed(nn.Module):
    """The same layers, in four segments that keep only their input."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return checkpoint_sequential(self.layers, 4, x, use_reentrant=False)


with torch.device("meta"):
    deep, (inputs,) = models.linear_stack(256, 16, 1024)
for precision in ("fp32", "amp bf16"):
    for network in (deep, Checkpointed(deep)):
        rest = {"precision": precision, "loss": mse_loss, "target": inputs}
        kept = training_memory(network, inputs, **rest).activations
        print(f"{precision:9} {type(network).__name__:13} {kept:>10,} bytes of activations")

# %% [markdown]
# The segments' inputs and the last segment stay; the price is about one more forward pass, in the
# precision of the first. The two levers go together. [[Lesson past_one_gpu]] uses checkpointing in earnest, with
# what goes wrong when the recomputation runs in another dtype, and shards the 16 bytes a parameter
# over several GPUs.
#
# ## Myths, tested
#
# | said | shown above |
# |---|---|
# | "smaller model footprints" | 16 bytes a parameter under Adam either way, and 2 more while the casts live |
# | "reduces memory" (the recipe) | its own run grew by the casts of its weights |
# | "30 to 50% less memory" | from more than FP32 to about half, by the share of the activations |
# | 1.3% growth | 12% without the preloaded data |
# | "`set_to_none=True` can help" | it is the default |
# | `reset_max_memory_allocated` | a deprecated name for `reset_peak_memory_stats` |
#
# ## Recap
#
# 1. Parameters, gradients and optimizer take 8 to 16 bytes a parameter, and autocast changes none
#    of them.
# 2. Autocast saves on activations: what 16-bit layers keep for backward is half as large.
# 3. It adds two bytes for each cast parameter, the cast of the batch, and the float32 output.
# 4. So it pays from a crossover batch on, which grows with the width; some shallow networks have
#    none.
# 5. Take the data out of a peak before you compare, and fetch the lever that fits: autocast and
#    checkpointing for activations, another optimizer or sharding for model states.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "memory.seven_billion_states",
    "memory.first_batch_that_pays",
    "memory.peak_with_data_in_it",
)

# %% [markdown]
# **Next:** [[exercises memory|five exercises]]: bytes a parameter, the crossover, the
# cast cache, two reports to read, and the lever that helps. Then [[lesson speed]]: speed, measured.
