# %% [markdown]
# # Lesson 12, deeper: Ranks at their edges
#
# This notebook is optional. It shows what happens to a model of which only a part is sharded, how to keep
# a norm in FP32, and how averages in FP16 fail. Everything here runs on a CPU, in one process.
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
# Back to [[lesson ranks]], its [[exercises ranks]], or on to [[lesson fp8]].
