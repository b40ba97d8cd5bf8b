# %% [markdown]
# # Lesson 01, deeper: Number formats at their edges
#
# This notebook is optional. It shows what PyTorch does where few tensors take it: numbers that are
# rounded twice, subnormals that a CPU throws away, casts beyond the largest FP8 number, and a scale for
# each block. Everything here runs on a CPU, and was tried with PyTorch 2.13.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson number_formats]].

# %%
import torch

from amp_lessons import FP8_E4M3, FP16, predict

# %% [markdown]
# ## Rounded twice
#
# NumPy data often comes in FP64. What happens if you cast it to FP16? In PyTorch 2.13, a CPU goes through
# FP32: it rounds the number to FP32, and the result to FP16.
#
# The next cell casts 2049 + 2⁻²⁰ in two ways. `FP16.round` is from this course's package, and rounds once.

# %% tags=["question"]
predict("number_formats.rounded_twice")

# %%
x = 2049 + 2**-20
print("rounded once:  ", FP16.round(x))
print("PyTorch's cast:", torch.tensor(x, dtype=torch.float64).half().item())

# %% [markdown]
# The two results are neighbours in FP16, so you see it if you compare two programs bit by bit. It costs
# more at the end of the range: 65,520 − 2⁻²⁰ becomes inf here. Rounded once, it would be 65,504.
#
# ## Subnormals that a CPU throws away
#
# Some CPUs are slow with subnormal numbers. So there is a mode in which an x86 or ARM CPU replaces them
# by zero, `torch.set_flush_denormal(True)`. (*Denormal* is an older name for subnormal.)
# The call sets the mode for the thread that makes it. Other threads that are already running keep theirs.
#
# 1e-39 is subnormal in FP32 and in BF16, and 1e-6 is subnormal in FP16. We multiply each of them by 1.

# %% tags=["question"]
predict("number_formats.flushed")

# %%
numbers = {torch.float32: 1e-39, torch.bfloat16: 1e-39, torch.float16: 1e-6}
tensors = {dtype: torch.tensor([x]).to(dtype) for dtype, x in numbers.items()}
for flush in (False, True):
    torch.set_flush_denormal(flush)
    print("subnormals flushed" if flush else "as usual")
    for dtype, tensor in tensors.items():
        print(f"  {dtype!s:15} {(tensor * 1).item():.3g}")
_ = torch.set_flush_denormal(False)

# %% [markdown]
# If two machines disagree about very small numbers, ask whether one of them flushes. What a GPU does
# was not measured here.
#
# ## Beyond the largest FP8 number
#
# E4M3 ends at 448 and has no inf. The [OCP
# specification](https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1)
# names two modes for what lies beyond. A cast may *saturate*, which gives 448, or it may give NaN.
#
# PyTorch also has `float8_e4m3fnuz`, another format with 4 exponent bits. Its largest number is 240. It is
# the one that AMD's MI300 GPUs
# [support](https://rocm.docs.amd.com/projects/HIP/en/docs-6.2.0/reference/fp8_numbers.html) (gfx942 in that
# table).

# %%
x = torch.tensor([460.0, 1000.0, -1000.0, torch.inf])
print("float8_e4m3fn, in PyTorch:", x.to(torch.float8_e4m3fn).float().tolist())
print("E4M3, not saturating:     ", FP8_E4M3.round(x).tolist())
print("float8_e4m3fnuz:          ", x.to(torch.float8_e4m3fnuz).float().tolist())
print("float8_e5m2:              ", x.to(torch.float8_e5m2).float().tolist())

# %% [markdown]
# So in PyTorch 2.13 on a CPU, the cast to `float8_e4m3fn` saturates. Even inf becomes 448, so the overflow
# leaves no trace. PyTorch up to 2.12 gave NaN ([pull
# request](https://github.com/pytorch/pytorch/pull/178817)). If your code must do the same in every version,
# call `x.clamp(-448, 448)` before the cast.
#
# ## One outlier, and a scale for each block
#
# 4,095 numbers are about 0.001 in size, and one is 1,000. With one scale for all, 1,000 becomes 448. Then
# the others are about 0.0004 in size. E4M3's smallest positive number is 0.002.


# %%
def through_fp8(x, scale):
    """Multiply by the scale, store in E4M3, and divide again."""
    return (x * scale).to(torch.float8_e4m3fn).float() / scale


torch.manual_seed(0)
x = torch.randn(4096) * 1e-3
x[0] = 1000.0
stored = through_fp8(x, 448 / x.abs().max())
print(f"one scale for all: {(stored == 0).sum():,} of {x.numel():,} numbers become zero")

# %% [markdown]
# [MXFP8](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf) gives
# each block of 32 neighbours a scale of its own, and the scale is a power of two. We take the largest one
# that keeps the block within 448.

# %% tags=["question"]
predict("number_formats.one_outlier")

# %%
blocks = x.view(-1, 32)
largest = blocks.abs().amax(dim=1, keepdim=True)
scales = 2.0 ** torch.floor(torch.log2(448 / largest))
stored = through_fp8(blocks, scales)
error = (stored - blocks)[1:].norm() / blocks[1:].norm()
print(f"{len(blocks)} scales: {(stored == 0).sum()} of {x.numel():,} numbers become zero")
print(f"relative error of the blocks without the outlier: {error:.2f}")

# %% [markdown]
# Such a scale is stored in 8 bits, all of them exponent. So a block of 32 numbers takes 33 bytes. PyTorch
# 2.13 has a dtype for these scales, `torch.float8_e8m0fnu`.
#
# [NVFP4](https://arxiv.org/abs/2509.25149) has a scale for every 16 numbers of 4 bits. That scale is in
# E4M3, and the whole tensor has one more scale in FP32. NVIDIA's data-centre GPUs of the Blackwell
# generation [support MXFP8 and NVFP4](https://nvidia.github.io/TransformerEngine/support_matrix.html).
# `torch.autocast` in PyTorch 2.13 offers neither. We didn't measure these formats on a GPU.
#
# Back to [[lesson number_formats]], its [[exercises number_formats]], or on to [[lesson
# how_numbers_break]].
