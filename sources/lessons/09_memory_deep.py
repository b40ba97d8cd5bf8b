# %% [markdown]
# # Lesson 09, deeper: Memory, byte by byte
#
# This notebook is optional. It accounts for the recipe's peak of [[lesson memory]] to within five blocks
# of 512 bytes, and asks what that says about the GPU. It also shows when adding up parts misleads, and
# what autocast saves on five models. Then come two ways to keep less, a loss in pieces and a step inside
# the backward pass, and a count beside CUDA's allocator.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson memory]].

# %%
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from amp_lessons import predict, training_memory
from amp_lessons.amp.memory import BytesAlive, allocator_check, crossover_batch
from amp_lessons.amp.training import models

# %% [markdown]
# ## A number of 4 bytes
#
# The recipe trains three layers of width 4,096 with `mse_loss`. With a batch of 4,096, its peak in FP32
# was 7,533,332,992 bytes, and without the 50 batches it was 822,446,592. What were these 784 MiB? One
# part is easy to miss. Here is the loss of a small output, 64 rows of 100 numbers.

# %% tags=["question"]
predict("memory.mse_buffer")

# %%
loss = mse_loss(torch.randn(64, 100), torch.randn(64, 100))
print(f"the number: {loss.nbytes} bytes, the memory behind it: ", end="")
print(f"{loss.untyped_storage().nbytes():,} bytes")

# %% [markdown]
# ## The account
#
# A weight matrix, an FP32 result of a layer for the batch, and the buffer behind a loss have the same
# size here, 64 MiB. We call it a unit. This is what was alive at the peak, if our account is right:
#
# - Two networks. The name `loss` still belonged to the run before. A loss holds its graph, and the graph
#   holds the parameters, here those of an old network.
# - What the first forward pass leaves.
# - Three buffers of the loss: the one of the old loss, the new one, and one that the operation needs for
#   a moment.
# - Two workspaces of cuBLAS, NVIDIA's library of matrix products, which are scratch memory for it. Each
#   thread that calls cuBLAS has its own, and the backward pass runs in a thread of its own.

# %%
unit, network = 4096 * 4096 * 4, 3 * (4096 * 4096 + 4096) * 4
data, workspace = 50 * 2 * unit, (2 * 4096 + 8 * 16) * 1024
shared = data + 2 * network + 3 * unit + 2 * workspace
fp32 = shared + 3 * unit  # two hidden results, the output
amp = shared + network // 2 + 3 * unit  # copies; halves of input, hidden, output; FP32 output
for name, counted, printed in (
    ("FP32    ", fp32, 7_533_332_992),
    ("autocast", amp, 7_634_019_840),
):
    print(f"{name}  counted {counted:,}  printed {printed:,}  left {printed - counted:,}")

# %% [markdown]
# A few blocks of 512 bytes are left over in each run. Both runs leave three units of activations. Under
# autocast these are 16-bit copies of the input (half a unit), two 16-bit hidden results (half a unit
# each), the 16-bit output (half a unit), and its FP32 copy for the loss (one unit).
#
# It's an account that fits, and not a measurement. But it shows why a peak from a notebook needs a fresh
# kernel. Four of the twelve units in FP32 belonged to the run before: its network, and the buffer of its
# loss.
#
# ### What it says about the GPU
#
# The recipe's notebook doesn't name its GPU. PyTorch's workspace has 8,519,680 bytes by default, and 32
# MiB on Hopper (H100, H200), unless you set `CUBLAS_WORKSPACE_CONFIG`
# ([source](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/cuda/CublasHandlePool.cpp)). Since
# a change of February 2026, Blackwell has 32 MiB too
# ([pull request 175344](https://github.com/pytorch/pytorch/pull/175344)). The notebook ran before that.

# %%
hopper = fp32 + 2 * (32 * 2**20 - workspace)
print(f"left over with two workspaces of Hopper: {7_533_332_992 - hopper:,} bytes")

# %% [markdown]
# With two workspaces of that size, the account exceeds what was printed by 48 MiB. The other parts come in
# units of 64 MiB. With one unit less, 16 MiB would be left over, and nothing in our account has that
# size. So if the account is right, the GPU wasn't an H100 or H200 with default settings.
# [[Lesson speed]] rules out others by their speed.
#
# ## A sum can mislead
#
# `training_memory`, and the memory calculator, add up the parts that exist at the end of the forward
# pass, and the gradients. They take the output of the network to be alive, because many loops have a
# name for it. We ask from which batch on the sum is smaller with autocast than in FP32: the *crossover*.
# The network has three layers of width 256. `WithLoss` returns the loss and not the output, so that
# nobody holds the output.


# %%
class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, target):
        return mse_loss(self.network(x), target)


def counted(layers, width, batch, precision, named):
    with torch.device("meta"):
        network, (x,) = models.linear_stack(width, layers, batch)
    if named:
        return training_memory(network, x, precision=precision, loss=mse_loss, target=x.clone())
    return training_memory(WithLoss(network), x, x.clone(), precision=precision)


# %% tags=["question"]
predict("memory.output_name")

# %%
print("layers  width  loss of model(x)  output has a name")
for layers, width in ((3, 256), (8, 256), (8, 512), (16, 256)):
    found = []
    for named in (False, True):
        fp32 = [counted(layers, width, batch, "fp32", named) for batch in (1, 2)]
        amp = [counted(layers, width, batch, "amp bf16", named) for batch in (1, 2)]
        found.append(crossover_batch(fp32, amp) or "none")
    print(f"{layers:6}  {width:5}  {found[0]:>16}  {found[1]:>17}")

# %% [markdown]
# The crossover grows with the width: copies grow with its square, and activations only with the width
# itself. It falls with the number of layers, because the two ends weigh less.
#
# Now the same three layers, followed with `BytesAlive`, with plain SGD and without a name for the output.


# %%
def peak(batch, amp):
    network, (x,) = models.linear_stack(256, 3, batch)
    target = torch.zeros(batch, 256)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with BytesAlive(x, target, *network.parameters()) as alive:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                loss = mse_loss(network(x), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return alive.peak


# %%
for batch in (256, 772, 2048):
    more = peak(batch, True) - peak(batch, False)
    print(f"batch {batch:4}: autocast's peak is {more:,} bytes higher")

# %% [markdown]
# By the sum, autocast pays from batch 772 on. But its peak is higher at each of these batches, by about
# one 16-bit weight matrix (131,072 bytes). The FP32 run has its peak in the backward pass. With autocast
# the peak is in the loss of the second step. There, the 16-bit output is alive beside its FP32 copy, and
# the buffer of the old loss beside the new one. If the loop says `del loss` after `backward()`,
# autocast's peak at a batch of 2,048 is 7% lower than that of FP32.
#
# So a sum tells which part is large. Whether a run fits is decided by the peak of *your* loop.
#
# ## "30 to 50% less memory"
#
# That promise is found on the web. Here are five models with Adam, by the sum of their parts, with
# BF16 and CUDA's rules. Model states are weights, gradients and averages.

# %%
examples = {
    "MLP, batch 32": (models.mlp, {"batch": 32}),
    "CNN, batch 64": (models.cnn, {"batch": 64}),
    "transformer, batch 16": (models.transformer_encoder, {"batch": 16, "length": 64}),
    "GPT-2 small, batch 1": (models.gpt2, {"batch": 1}),
    "GPT-2 small, batch 8": (models.gpt2, {"batch": 8}),
}
for name, (make, sizes) in examples.items():
    with torch.device("meta"):
        network, inputs = make(**sizes)
    rest = {"optimizer": "adam", "device": "cuda"}
    fp32 = training_memory(network, *inputs, **rest)
    amp = training_memory(network, *inputs, precision="amp bf16", **rest)
    print(f"{name:22} {amp.total / fp32.total:.2f} of FP32", end=", ")
    print(f"model states are {fp32.model_states / fp32.total:.0%} of FP32's bytes")

# %% [markdown]
# In these five, the larger the share of the model states, the less autocast saves. The CNN has two
# convolutions and one linear layer, and still needs 45% less. Its images and its 10 outputs are small
# beside the results between them.
#
# ## Another 16 bytes
#
# Papers on large models also count 16 bytes per parameter, and mean something else: 2 for a 16-bit
# weight, 2 for its gradient, and 12 for an FP32 copy of the weight and Adam's averages
# ([ZeRO](https://arxiv.org/abs/1910.02054)). Their models keep [[term master weights]] beside 16-bit
# weights. With `torch.amp` the FP32 weights are the only ones that last.
#
# And a model that is *stored* in BF16, with `model.to(torch.bfloat16)`, has 8 bytes per parameter under
# `torch.optim.Adam`, because gradients and averages take the dtype of the weight. To see what that costs, take a
# weight of 1, and subtract 0.001 from it a hundred times.

# %%
for dtype in (torch.float32, torch.bfloat16):
    weight = torch.ones((), dtype=dtype)
    for _ in range(100):
        weight -= 0.001
    print(f"{dtype}: {weight.item():.3f}")

# %% [markdown]
# ## A loss in pieces, and its dtype
#
# `linear_cross_entropy` with options saves memory in [[lesson memory]]. What does it compute? Take BF16
# hidden states, as a block under autocast puts them out, and FP32 weights of the last layer. The first
# line is the reference: the same states in FP32, without autocast. The others run in a region.

# %%
from torch.nn import LinearCrossEntropyOptions
from torch.nn.functional import linear_cross_entropy

torch.manual_seed(0)
states, head = torch.randn(2048, 64).bfloat16(), torch.randn(8000, 64) / 8
words, pieces = torch.randint(0, 8000, (2048,)), {"options": LinearCrossEntropyOptions()}
losses = {
    "no autocast": lambda h, w: cross_entropy(h.float() @ w.T, words),
    "logits.float()": lambda h, w: cross_entropy((h @ w.T).float(), words),
    "in pieces": lambda h, w: linear_cross_entropy(h, w, words, **pieces),
    "in pieces, h.float()": lambda h, w: linear_cross_entropy(h.float(), w, words, **pieces),
}
gradients = []
for name, loss_of in losses.items():
    w = head.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=name != "no autocast"):
        loss = loss_of(states, w)
    loss.backward()
    gradients.append(w.grad)
    error = (w.grad - gradients[0]).norm() / gradients[0].norm()
    print(f"{name:20} loss {loss.item():.2f} {loss.dtype}, gradient off by {error:.1%}")

# %% [markdown]
# With options, autocast has no rule for this operation, so it computes in the dtype of the hidden
# states. (Without them it is a linear layer and a `cross_entropy`, for which autocast casts.) BF16
# states give a coarse loss for your log, and here a gradient that is off by 1%. With `h.float()` both
# are right, but the matrix products then run in FP32, which is slower on a GPU. (On CUDA, other
# options are the default than on a CPU. We haven't measured those.)
#
# ## A step inside the backward pass
#
# A gradient is needed from its backward pass to the step. If each parameter steps as soon as its gradient
# is there, few gradients are alive at a time. PyTorch calls a *hook* at that moment, and each parameter
# gets an optimizer of its own ([tutorial](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)).
# Here are 16 layers and a small batch.


# %%
def adam_peak(in_backward):
    network, (x,) = models.linear_stack(256, 16, batch=16)
    weights = list(network.parameters())
    groups = [[weight] for weight in weights] if in_backward else [weights]
    optimizers = {group[0]: torch.optim.Adam(group, fused=True) for group in groups}

    def step(weight):
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    if in_backward:
        for weight in weights:
            weight.register_post_accumulate_grad_hook(step)
    with BytesAlive(x, *weights) as alive:
        for _ in range(2):
            network(x).square().mean().backward()
            if not in_backward:
                step(weights[0])  # the optimizer of all weights
    return alive.peak / sum(weight.numel() for weight in weights)


# %%
print(f"step after the backward pass:   {adam_peak(False):.1f} bytes per parameter at the peak")
print(f"steps inside the backward pass: {adam_peak(True):.1f}")

# %% [markdown]
# It removes most of the 4 bytes of the gradients. But three things need all gradients at once:
#
# - `GradScaler` decides once for each optimizer. With one optimizer for each parameter, an inf in one of
#   them holds back that one alone, and the others step.
# - The norm of all gradients, for clipping.
# - Accumulation: `.grad` has to stay until the last piece.
#
# So use it in BF16 or FP32, with neither of the other two. If the peak is in the forward pass, it saves
# nothing.
#
# ## Two pieces of old advice
#
# - "`zero_grad(set_to_none=True)` saves memory." It has been the default since PyTorch 2.0
#   ([docs](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)).
# - `torch.cuda.reset_max_memory_allocated()` is an
#   [old](https://docs.pytorch.org/docs/stable/generated/torch.cuda.reset_max_memory_allocated.html)
#   name. It warns, and calls `reset_peak_memory_stats()`.
#
# ## The count and the allocator
#
# If you have a CUDA GPU, the next cell runs one step on it and prints the count of `training_memory`
# beside what the allocator says. Without one it says "not measured here". We expect these differences:
# blocks of 512 bytes, the workspaces of cuBLAS, and 8,388,608 bytes behind the loss, its output being
# 2,048 rows of 1,024 FP32 numbers. `training_memory` counts the loss as 4 bytes.

# %% tags=["live"]
network, (inputs,) = models.linear_stack(1024, 8, 2048)
target = torch.randn(2048, 1024)
for precision in ("fp32", "amp fp16"):
    print(precision)
    print(allocator_check(network, inputs, precision=precision, loss=mse_loss, target=target))

# %% [markdown]
# Back to [[lesson memory]], its [[exercises memory]], or on to [[lesson speed]].
