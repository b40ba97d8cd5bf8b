# %% [markdown]
# # Lesson 12, deeper: Ranks at their edges
#
# This notebook is optional. It shows what happens to a model of which only a part is sharded, how to keep
# a norm in FP32, and how averages in FP16 and sums over many ranks in BF16 fail. It ends with FSDP2 and
# checkpoints. Everything here runs on a CPU, in one process.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson ranks]].

# %%
import torch

from amp_lessons.amp.distributed import experiments
from amp_lessons.lessons.experiments import one_of_ranks

# %% [markdown]
# ## A model that is sharded by half
#
# `one_of_ranks` pretends that this process is rank 0 of two: exchanges do nothing and wait for nobody.
# That is enough to see dtypes and errors.
#
# The next cell shows the dtypes of one training step under FSDP2, with the policy of the lesson. Then it tries
# a model of which only the first layer was given to `fully_shard`. One optimizer holds all its
# parameters, and a `GradScaler` makes the step.

# %%
with one_of_ranks(2):
    for place, dtype in experiments.fsdp2_dtypes(torch.device("cpu")).items():
        print(f"{place:26} {dtype}")
    message = experiments.mixed_gradients(torch.device("cpu"))
print(message.split(", need")[0])

# %% [markdown]
# The last line is the start of the error message. The scaler gives all gradients to one operation,
# `_amp_foreach_non_finite_check_and_unscale_`. DTensor
# [adds an exchange to it](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_dispatch.py)
# (`found_inf_reduce_handler`), and refuses a mixture. Call `fully_shard` on the model itself too, last.
#
# The order also helps to keep a norm in FP32. Call `fully_shard` on the norm first, with a policy of its
# own: `MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.float16)`. Without its
# `output_dtype`, the norm hands on FP32. If the next layer has FP16 weights and no `fully_shard` of its
# own, that is an error.
#
# ## Averages in FP16
#
# Eight ranks have FP16 gradients, and average them in FP16. You can add first and divide by 8 at the
# end, or divide each gradient before you add it. We try gradients of 10,000, and gradients of 6e-8,
# FP16's smallest number.

# %%
for name, value in (("10,000", 10_000.0), ("6e-8", 2.0**-24)):
    total = mean = torch.zeros((), dtype=torch.float16)
    for gradient in torch.full((8,), value, dtype=torch.float16):
        total = total + gradient
        mean = mean + gradient / 8
    print(f"mean of eight gradients of {name}:", end="  ")
    print(f"divide last {(total / 8).item():.4g}, divide first {mean.item():.4g}")

# %% [markdown]
# Each order fails for one of them. So:
#
# - DDP's own averages are FP32 if the gradients are. Its
#   [`fp16_compress_hook`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py)
#   changes that. It casts to FP16 and then divides, so scaled gradients from 65,520 on become inf.
# - FSDP2 with an FP16 `reduce_dtype` divides by about the root of the number of ranks before the sum, and
#   by the rest after it: with 8 ranks by 4 and by 2, with 2 ranks by 2 before it
#   ([`_get_gradient_divide_factors`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)).
# - `nn.DataParallel`, the predecessor of DDP, has threads in place of ranks. In PyTorch 2.13 it hands
#   them autocast's on or off, without its dtype. Put the region inside `forward`; better, use DDP.
#
# ## A sum over many ranks in BF16
#
# DDP's `bf16_compress_hook` halves the bytes of the exchange: it casts each gradient to BF16, divides by
# the number of ranks, and adds up in BF16. The libraries decide in which order. Here one rank after the
# other adds its part, as in a ring. The ranks' gradients have the same mean and different noise.

# %%
draw = torch.Generator().manual_seed(0)
gradients = 2e-4 + 1e-3 * torch.randn(512, 5_000, generator=draw)
for ranks in (2, 8, 64, 512):
    exact = gradients[:ranks].double().mean(0)
    mean = torch.zeros(5_000, dtype=torch.bfloat16)
    for gradient in gradients[:ranks]:
        mean += gradient.bfloat16() / ranks
    error = (mean.double() - exact).norm() / exact.norm()
    print(f"{ranks:3} ranks: relative error {error:.2%}")

# %% [markdown]
# The more ranks, the larger the sum beside each part, and the more of each part is rounded away. FSDP2's
# `reduce_dtype=torch.float32` avoids that, for twice the bytes.
#
# ## FSDP2 with a checkpoint
#
# A recomputed block must run in the dtype of its first run ([[lesson compile_and_checkpoint]]). Under
# FSDP2 the policy casts its input. Does it also cast in the second run? `seen` collects the dtypes of
# both.

# %%
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from amp_lessons.lessons.experiments import raised


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(8, 8), []

    def forward(self, x):
        self.seen.append(x.dtype)
        return self.layer(x)


with one_of_ranks(2):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    block = fully_shard(Block(), mp_policy=policy)
    checkpoint(block, torch.randn(4, 8), use_reentrant=False).sum().backward()
    print("seen by the block:", *block.seen)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, cast_forward_inputs=False)
    block = fully_shard(Block(), mp_policy=policy)
    print("cast_forward_inputs=False:", raised(lambda: block(torch.randn(4, 8))))

# %% [markdown]
# In PyTorch 2.13 both runs get BF16. Before, the second run could get the input as it was, and fail or
# compute in FP32 ([issue 148831](https://github.com/pytorch/pytorch/issues/148831), [its
# repair](https://github.com/pytorch/pytorch/pull/182580)). With `cast_forward_inputs=False`, you cast the
# inputs yourself.
#
# Back to [[lesson ranks]], its [[exercises ranks]], or on to [[lesson fp8]].
