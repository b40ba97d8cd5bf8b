# %% [markdown]
# # Lesson 10, deeper: How fast could it be?
#
# This notebook is optional. It counts the work of a training step, compares it with what a GPU can
# do at most, and uses that to judge a published run. Then it shows the switches for TF32, and what
# else decides about speed: caches, clocks, layouts and kernels.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson speed]]; no GPU.

# %%
import inspect

import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons import autoencoder, load_digits, plots
from amp_lessons.amp import roofline
from amp_lessons.amp.roofline import GPUS, Matmul, find_gpu
from amp_lessons.amp.speed import PretendGpu, load_records, timing
from amp_lessons.lessons.recipe import run_recipe

device = "cuda" if torch.cuda.is_available() else "cpu"
h200 = find_gpu("H200")

# %% [markdown]
# ## A number to doubt
#
# PyTorch's [AMP recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) trains
# three linear layers. Somebody ran it with a width and a batch of 4096 and kept the output, which
# this course has as the record `seed_003`. The page says that mixed precision "can reduce your
# network's runtime and memory footprint".

# %%
seed = next(record for record in load_records() if record.name == "seed_003")
print(seed.kind, "on", seed.gpu or "a GPU that is not named")
fp32, amp = seed.rows
for row in (fp32, amp):
    print(f"{row.mode:8}  {row.total_s:.3f} s for {row.steps} steps, peak {row.peak_bytes:,} bytes")
print(
    f"speed-up {fp32.total_s / amp.total_s:.2f}, memory {amp.peak_bytes - fp32.peak_bytes:+,} bytes"
)

# %% [markdown]
# It was faster, and it took *more* memory: [[deep memory]] says why. What about the 2.33? There is
# one run of each, no warm-up, a GPU without a name, unknown TF32 switches, and no word on whether
# both trained equally well. It may be right, but nobody can tell.
#
# The recipe's own assertions about dtypes never run, because they stand in a loop over `range(0)`.
# Here is the same experiment with assertions that do. On a CUDA GPU it has the recorded size. On a
# CPU it is small.

# %% tags=["live"]
print(run_recipe(mixed=False))
print(run_recipe(mixed=True))

# %% [markdown]
# ## How many operations?
#
# To judge a time, count the work. A product of an (m, k) and a (k, n) matrix takes 2·m·n·k floating
# point operations: a multiplication and an addition for each of m·n·k pairs. Let's count the
# products of one training step of the three layers, by hand and with PyTorch's counter.

# %%
products = roofline.training_matmuls(widths=(4096,) * 4, batch=4096)
for work in products:
    print(work.name)
print(f"{roofline.total_flops(products) / 1e12:.4f} TFLOP a step by hand")
with torch.device("meta"):  # shapes without data
    layers = [nn.Linear(4096, 4096) for _ in range(3)]
    net, data = nn.Sequential(*layers), torch.empty(4096, 4096)
counted = timing.count_flops(lambda: net(data).sum().backward())
print(f"{counted / 1e12:.4f} TFLOP by torch's FlopCounterMode")

# %% [markdown]
# There are eight products and not nine. The gradient of the first layer's input isn't computed,
# because nobody asks for the gradient of the data. So 150 steps are 165 TFLOP. Which GPUs could
# *not* have done that in the recorded times?

# %%
for row in (fp32, amp):
    print(f"{row.mode:8} {row.tflops:.1f} TFLOP/s")
for one in GPUS:
    floor = roofline.seed_floor(one, "fp32"), roofline.seed_floor(one, "fp16")
    possible = floor[0] <= fp32.total_s and floor[1] <= amp.total_s
    verdict = "possible" if possible else "too slow in IEEE FP32"
    print(f"{one.name:14} at least {floor[0]:6.3f} s in FP32, {floor[1]:.3f} s in FP16: {verdict}")

# %% [markdown]
# These peaks are quoted from the makers' documents, which each `Gpu` in `amp_lessons.amp.roofline`
# names. They are for *dense* matrices. The H200's
# [page](https://www.nvidia.com/en-us/data-center/h200/) prints 1979 for FP16 "with sparsity", for
# weights of which two in four are zero. Dense is half of it, 989. If you divide by 1979, your
# utilisation looks half as good as it is.
#
# A floor set by compute is firm, apart from a chip that clocks a few percent above its sheet. So
# the unnamed GPU wasn't a T4 or a V100, and not an A100 in IEEE FP32. A floor set by bandwidth is
# less firm. It holds for data that comes from the GPU's memory. What still lies in the L2 cache (50
# MB on an H100) comes faster. So benchmarks of small work clear the cache before each run, as
# [Triton's
# `do_bench`](https://triton-lang.org/main/python-api/generated/triton.testing.do_bench.html) does,
# and as `timing.compare(..., cold_cache=True)` does on CUDA.
#
# ## The roofline
#
# A GPU computes, and it moves bytes. Work that does few operations for each byte waits for the
# memory. The number of operations per byte is called *arithmetic intensity*. Below the *ridge*,
# which is the peak divided by the bandwidth, the memory is the limit. Take a layer of 4096 by 4096
# on an H200. From which batch on is it limited by compute?

# %%
print(f"ridge: {h200.ridge('fp16'):.0f} FLOP per byte in FP16, {h200.ridge('fp32'):.0f} in FP32")
for batch in (1, 16, 128, 256, 4096):
    work = Matmul(m=batch, n=4096, k=4096)
    floors = [1e6 * roofline.matmul_floor(h200, d, work) for d in ("fp32", "fp16")]
    bounds = [roofline.bound(h200, d, work.flops, work.bytes(d)) for d in ("fp32", "fp16")]
    limits = [f"{floor:7.1f} µs by {bound:9}" for floor, bound in zip(floors, bounds, strict=True)]
    print(
        f"batch {batch:5}: FP32 {limits[0]}  FP16 {limits[1]}  {floors[0] / floors[1]:4.1f} times"
    )
enough = (b for b in range(1, 4096) if Matmul(b, 4096, 4096).intensity("fp16") > h200.ridge("fp16"))
print("FP16 is bound by compute from batch", next(enough))

# %%
points = {}
for batch in (1, 16, 256, 4096):
    intensity = Matmul(batch, 4096, 4096).intensity("fp16")
    points[f"batch {batch}"] = (intensity, h200.roof("fp16", intensity))
peaks = {
    name: h200.peak(dtype) for name, dtype in (("FP16", "fp16"), ("TF32", "tf32"), ("FP32", "fp32"))
}
title = "H200, by its data sheet: nothing measured"
bandwidth = h200.bytes_per_second()
plots.roofline({"FP16": points}, peaks, bandwidth, title=title, counted="each matrix moves once")

# %% [markdown]
# In FP16 it is limited by compute from 230 rows on. At a batch of 1 or 16 both formats wait for the
# weights to arrive. There FP16 is twice as fast, because the weights are half as many bytes. Only
# where both formats are limited by compute is the factor 14.8. Elementwise operations such as ReLU,
# dropout and the optimizer's lie far to the left. They get faster by moving fewer bytes: in 16
# bits, or fused with others.
#
# The factor of 2 holds for weights that *are* FP16. With autocast they are FP32, and the cast moves
# bytes too: in every step it reads 4 bytes of each weight and writes 2. So how many times as fast
# is the layer's forward pass under autocast, with that cast?

# %%
cast = (4 + 2) * 4096 * 4096 / h200.bytes_per_second()  # seconds, at least
for batch in (1, 16, 64, 256, 4096):
    work = Matmul(m=batch, n=4096, k=4096)
    fp32_floor, fp16_floor = (roofline.matmul_floor(h200, d, work) for d in ("fp32", "fp16"))
    ratio = fp32_floor / (cast + fp16_floor)
    print(f"batch {batch:5}: {ratio:5.2f} times as fast as FP32, at best")

# %% [markdown]
# By this count autocast takes twice as long as FP32 at a batch of 1. With large batches the cast is
# small beside the product. For inference with small batches, store the weights in 16 bits ([[lesson
# training_loops]]).
#
# In the next widget, choose your GPU and your sizes, and find where FP16 gives 14.8, where 2, and
# where nothing.

# %% tags=["live"]
from amp_lessons.lessons.widgets import RooflineExplorer

RooflineExplorer("H200", "fp16", m=256, n=4096, k=4096)

# %% [markdown]
# ## Too small to be faster
#
# The recipe suggests batches of 128, 256 and 513, for layers of 4096. Let's make all three sizes of a
# product as small as that. How long does an H200 need at least?

# %%
for size in (128, 256, 513, 4096, 8192):
    work = Matmul(size, size, size)
    floors = {d: 1e6 * roofline.matmul_floor(h200, d, work) for d in ("fp32", "fp16")}
    odd = roofline.unaligned(work, "fp16")
    note = f"not a multiple of 8: {', '.join(odd)}" if odd else ""
    print(f"{size:5}: FP32 {floors['fp32']:9.2f} µs, FP16 {floors['fp16']:8.2f} µs  {note}")

# %% [markdown]
# A launch costs a few microseconds ([NVIDIA](https://developer.nvidia.com/blog/cuda-graphs/)), and
# PyTorch adds its own time. At 128 the floor is a fraction of a microsecond, so the launch takes
# longer than the product needs. On the pretend GPU a launch costs 5 µs. Here is the time of 100
# steps of four durations.

# %%
for seconds in (50e-6, 12.5e-6, 2e-6, 0.5e-6):
    gpu = PretendGpu()
    step = gpu.program("small", seconds=seconds)
    start = gpu.clock()
    for _ in range(100):
        step(None)
    gpu.synchronize()
    print(f"{1e6 * seconds:5.1f} µs a step: {1e6 * (gpu.clock() - start):6.0f} µs for 100")

# %% [markdown]
# From 50 to 12.5 µs, four times the speed helps. From 2 to 0.5 µs it changes nothing. The cure is
# fewer, larger kernels: a larger batch, `torch.compile`, or CUDA graphs, which launch many kernels
# as one ([PyTorch's blog](https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/)).
#
# 513 has another flaw. Tensor cores are fed in rows of 16 bytes, which is 8 numbers of 16 bits.
# Sizes that aren't multiples of 8 work since cuBLAS 11, but below their best ([NVIDIA's
# guide](https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html)).
# For an A100 the guide recommends multiples of 64. So a vocabulary of 50,257 is often padded to
# 50,304.
#
# ## The switches for TF32
#
# Since PyTorch 2.9 the switches are called `fp32_precision`. The next cell prints them as they are
# if nobody has touched them, and then within two contexts.

# %%
print("untouched: ", timing.fp32_state())
for precision in ("ieee", "tf32"):
    with timing.fp32_precision(precision):
        print(f"in {precision}:   ", timing.fp32_state())
print("afterwards:", timing.fp32_state())

# %% [markdown]
# "none" means that nobody has chosen, and then products run in IEEE FP32. For the convolutions and
# RNNs of cuDNN the default is TF32 ([PyTorch's
# notes](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices)).
# The old switches are called `allow_tf32`. Don't mix old and new: in PyTorch 2.13, reading an old
# switch after setting a new one can raise an error. Under autocast, TF32 concerns only what stays
# in FP32.
#
# ## Has this GPU BF16?
#
# `torch.cuda.is_bf16_supported()` counts emulation too, if you say nothing more.

# %%
print(inspect.signature(torch.cuda.is_bf16_supported))

# %% [markdown]
# So it says True for GPUs without BF16 tensor cores, such as a V100. Ask with
# `including_emulation=False`, as the bench and the doctor do.
#
# ## A stopwatch doesn't see the quality
#
# A run that doesn't learn can be very fast. Here is the digit painter of [[lesson
# amp_in_20_minutes]] in three runs: FP32, FP16 with a `GradScaler`, and FP16 without one. The last
# two run the same matrix products.

# %%
pictures, big = load_digits().train_images[:600].to(device), 100_000_000


def paint(half, scaled):
    model, errors = autoencoder().to(device), []
    optimizer = torch.optim.SGD(model.parameters(), big / pictures.numel(), momentum=0.9)
    scaler = torch.amp.GradScaler(device, enabled=scaled)
    for _ in range(150):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16, enabled=half):
            error = mse_loss(model(pictures), pictures, reduction="sum")
        scaler.scale(error / big).backward()
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item() / pictures.numel())
    return errors


# %%
curves = {
    "FP32": paint(half=False, scaled=False),
    "FP16 without protection": paint(half=True, scaled=False),
    "mixed precision": paint(half=True, scaled=True),
}
for name, errors in curves.items():
    print(f"{name:24} error per pixel {errors[-1]:.3f} after 150 steps")
plots.training(curves, title="The digit painter, step by step", ylabel="error per pixel")

# %% [markdown]
# Without a scaler, FP16 runs the same products and learns next to nothing, and a stopwatch wouldn't
# notice. The bench records the loss curve of each mode, and says where one departs from FP32's.
#
# ## What else decides
#
# Most of these need a GPU to be seen, so they are described with their source.
#
# | what | what it does | where it matters |
# |---|---|---|
# | `channels_last` | stores the channels of a pixel side by side, the layout that tensor cores like for convolutions ([tutorial](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)) | CNNs; use it on both sides of a comparison, as the bench's `cnn-channels-last` does |
# | `torch.backends.cudnn.benchmark = True` | tries several algorithms for each convolution and keeps the fastest ([documentation](https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.benchmark)) | CNNs with constant sizes; the first steps get slower |
# | attention kernels | FlashAttention as PyTorch takes it by default runs in 16 bits only, so FP32 attention takes another kernel; FlashAttention-3 also takes FP8 in the forward pass ([documentation](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)) | transformers: the gain can exceed the ratio of the peaks |
# | CUDA graphs | replay a whole step with one launch ([notes](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)) | many small kernels |
# | clocks and power | a GPU lowers its clock when it gets hot or reaches its power limit; `nvidia-smi -lgc` locks it ([documentation](https://docs.nvidia.com/deploy/nvidia-smi/index.html)) | every comparison; the bench records clock, power and temperature |
# | MFU | model FLOPs utilisation: the operations that the model needs, divided by time and by the data sheet's peak ([PaLM](https://arxiv.org/abs/2204.02311), appendix B) | large runs; unlike a speed-up, it says how much is left |
#
# Back to [[lesson speed]], its [[exercises speed]], or on to [[lesson compile_and_checkpoint]].
