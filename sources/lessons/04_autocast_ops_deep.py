# %% [markdown]
# # Lesson 04, deeper: Autocast's rules at their edges
#
# This notebook is optional. It shows how to ask for CUDA's rules on a machine without CUDA, which ops
# don't follow the rule that their name suggests, and what autocast leaves alone. Nothing here needs
# a GPU, even where the text speaks of CUDA.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson autocast_ops]].

# %%
from contextlib import contextmanager

import torch
from torch import nn

from amp_lessons import op_policy, policy_table, predict
from amp_lessons.lessons.experiments import raised, raised_by, warned, without_cuda

half = torch.float16

# %% [markdown]
# ## A script that says "cuda"
#
# Somebody runs a training script on a laptop without a GPU. Its tensors are on the CPU, but one line
# still says `torch.autocast("cuda", dtype=torch.float16)`.

# %% tags=["question"]
predict("autocast_ops.cuda_on_a_cpu")

# %%
x, weight = torch.randn(4, 8), torch.randn(8, 3)


def multiply():
    with torch.autocast("cuda", dtype=half):
        print("x @ weight:", (x @ weight).dtype)


with without_cuda():  # whatever your machine has
    print("warning:", warned(multiply))

# %% [markdown]
# So use one variable for the device everywhere, and name the dtype. These are the dtypes that
# `torch.autocast` takes if you don't. `xpu` is an Intel GPU, `mps` an Apple GPU, and AMD's GPUs go by
# the name `cuda`.

# %%
for device in ("cpu", "cuda", "xpu", "mps"):
    print(f"{device:5}", torch.get_autocast_dtype(device))

# %% [markdown]
# ## Ask CUDA anyway
#
# The rules are in your copy of PyTorch, GPU or not. They act in the [[term dispatcher]], and look at
# the device and the dtype of a tensor and not at its data. So two things are enough: autocast's state for
# CUDA, set by hand, and [[term fake tensor|fake tensors]] on a device called `cuda`.

# %%
from torch._subclasses.fake_tensor import FakeTensorMode


@contextmanager
def cuda_region(dtype):
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", half)  # the default
        torch.clear_autocast_cache()


# %%
with torch.autocast("cpu", dtype=half):
    print("softmax on a CPU:   ", torch.softmax(torch.ones(2, 3, dtype=half), -1).dtype)
with cuda_region(half):
    scores = torch.ones(2, 3, dtype=half, device="cuda")
    print("softmax on CUDA:    ", torch.softmax(scores, -1).dtype)
    a, b = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda").double()
    print("FP32 @ FP64, fake:  ", (a @ b).dtype)
with torch.autocast("cpu", dtype=half):
    print("FP32 @ FP64, a CPU: ", raised(lambda: torch.ones(2, 2) @ torch.ones(2, 2).double()))

# %% [markdown]
# The last two lines show a limit: fake tensors can be more lenient than a real matrix product. Believe
# them about autocast's rules, and test mixtures of dtypes on real tensors. Two more limits without a
# GPU: a few ops, such as indexing, ask for the device and fail. And a fake CUDA tensor that requires a
# gradient can crash Python. The module's name also begins with an underscore: it may change.
#
# ## Is every matrix product in 16 bits?
#
# `torch.tensordot(a, b, dims=1)` of two matrices gives the same numbers as `a @ b`. Both matrices are FP32,
# and the region is one for CUDA and FP16.

# %% tags=["question"]
predict("autocast_ops.tensordot_on_cuda")

# %%
for op in ("matmul", "einsum", "tensordot", "inner", "bilinear", "addr", "mv", "outer"):
    cpu, cuda = op_policy(op, "cpu", half), op_policy(op, "cuda", half)
    print(f"{op:10} of FP32 inputs:  CPU {cpu.full}  CUDA {cuda.full}")

# %% [markdown]
# ## One FP16 and one FP32 input
#
# The widest list matters for ops that would refuse such a mixture. The next cell gives them one FP16 and one
# FP32 tensor. "None" means that the op raises an error.

# %%
for op in ("dot", "cross", "scatter_add", "atan2", "addcmul", "index_put", "cat", "stack"):
    cpu, cuda = op_policy(op, "cpu", half), op_policy(op, "cuda", half)
    print(f"{op:12} CPU {cpu.group:9} {cpu.mixed!s:14} CUDA {cuda.group:9} {cuda.mixed}")

# %% [markdown]
# Where one of these ops is "as given" and doesn't raise, PyTorch's usual type promotion comes to the
# same result.
#
# ## What only a CPU computes in FP32
#
# A CPU's FP32 list also has ops that are on none of CUDA's: Fourier transforms, matrix inverses, 2D
# reflection padding and others. Some of them don't accept FP16 at all, so without the list they would raise
# an error.

# %%
both = zip(policy_table("cpu", half), policy_table("cuda", half), strict=True)
only_cpu = [cpu.op for cpu, cuda in both if (cpu.group, cuda.group) == ("float32", "as given")]
chosen = ("linalg_inv", "linalg_svd", "fft_rfft", "quantile", "reflection_pad2d", "max_pool3d")
print("FP32 on a CPU only:", ", ".join(op for op in chosen if op in only_cpu))
_, _, message = raised(lambda: torch.linalg.inv(torch.eye(2, dtype=half))).partition(": ")
print("without autocast:", message)

# %% [markdown]
# ## A region of FP32
#
# `torch.autocast("cpu", dtype=torch.float32)` warns and switches itself off. What about CUDA? We open a
# CUDA region of FP32, and multiply two FP16 matrices in it.

# %% tags=["question"]
predict("autocast_ops.region_of_fp32")

# %%
with cuda_region(torch.float32):
    h = torch.ones(2, 2, dtype=half, device="cuda")
    print("CUDA: h @ h", (h @ h).dtype, " h + h", (h + h).dtype)


def multiply():
    with torch.autocast("cpu", dtype=torch.float32):
        h = torch.ones(2, 2, dtype=half)
        print("CPU:  h @ h", (h @ h).dtype, " h + h", (h + h).dtype)


print("warning on a CPU:", warned(multiply))

# %% [markdown]
# ## What autocast leaves alone
#
# Each line runs on a CPU in a region of FP16. `a` is an FP32 matrix. The first line is the rule. In
# the others, look for what is different.

# %%
a = torch.ones(4, 4)
lines = ["a @ a", "a.clone().addmm_(a, a)", "torch.mm(a, a, out=torch.empty(4, 4))"]
lines += ["a.double() @ a.double()", "a.int() @ a.int()", "a.cfloat() @ a.cfloat()"]
lines += ["torch.prod(a @ a, 0)", "torch.prod(a @ a, 0, dtype=half)"]
lines += ["a.to(torch.float8_e4m3fn) @ a"]
with torch.autocast("cpu", dtype=half):
    for line in lines:
        print(f"{line:37}", eval(line).dtype)

# %% [markdown]
# Ops in place and `out=` write into a tensor that is there already. Integers, complex numbers and
# float64 aren't cast. A dtype that the call names wins over the list that `prod` is on. FP8, in the last
# line, is cast: the rule is "floating point, but not float64".
#
# With `out=`, the dtype of the result isn't all that has to fit. Here the inputs are FP32 again, and only
# the result is FP16. (A few ops, such as `torch.tensordot` and `torch.inner`, call other ops inside, and
# autocast casts for those. With an FP32 tensor as `out=`, these two raise an error in this region.)

# %%
with torch.autocast("cpu", dtype=half):
    print(raised_by("torch.mm(a, a, out=torch.empty(4, 4, dtype=half))", globals()))

# %% [markdown]
# ## An op in 16 bits that the CPU lacks
#
# Autocast only casts. Whether there is a kernel for the 16-bit inputs is another question. Try an LSTM in
# both formats. What you see depends on your CPU.

# %% tags=["live"]
lstm, sequence = nn.LSTM(8, 4), torch.ones(5, 2, 8)
for dtype in (torch.float16, torch.bfloat16):
    with torch.autocast("cpu", dtype=dtype):
        print(dtype, raised(lambda: lstm(sequence)))

# %% [markdown]
# The CPU that built this page refused FP16 and accepted BF16. With PyTorch 2.0, somebody's CPU refused a
# BF16 LSTM too ([issue 88136](https://github.com/pytorch/pytorch/issues/88136)). "could not create a
# primitive descriptor" comes from oneDNN, the library that PyTorch uses on CPUs. It has no FP16 LSTM
# on that CPU. Use BF16 if your CPU has it. If not, use FP32, in a region with `enabled=False`.
#
# Another gap is NumPy's: it has no BF16, so `.numpy()` raises an error on a BF16 tensor. Write
# `.float().numpy()`.
#
# ## Assertions that run
#
# [PyTorch's AMP recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) explains
# dtypes with assertions. They stand in a loop over `range(0)`, so none of them is executed. Here is a
# check that runs, on both devices. Keep one like it in your tests, and it will tell you when an upgrade
# changes a list. Before you upgrade, ask for the differences: `amp-lessons policy --since 2.11` compares
# your PyTorch with an older one. CUDA's rule for `rms_norm`, for example, came with 2.12.

# %%
EXPECTED = {
    "linear": {"cpu": half, "cuda": half},
    "layer_norm": {"cpu": half, "cuda": torch.float32},
    "interpolate": {"cpu": half, "cuda": torch.float32},
    "mse_loss": {"cpu": torch.float32, "cuda": torch.float32},
}
for op, dtypes in EXPECTED.items():
    for device, expected in dtypes.items():
        found = op_policy(op, device, half).low
        assert found is expected, f"{op} on {device} gives {found}, not {expected}"
print(f"{len(EXPECTED)} ops checked on 2 devices")

# %% [markdown]
# Back to [[lesson autocast_ops]], its [[exercises autocast_ops]], or on to [[lesson autocast_regions]].
