# %% [markdown]
# # Lesson 10: Speed, measured
#
# **You will be able to** time work on a GPU without fooling yourself, say how fast it could be by the
# GPU's data sheet, see from both what would help, and tell a real speed-up from one that costs
# quality. This lesson times matrix products; `amp-lessons bench` times whole training steps.
#
# **Time** 50 minutes. **Needs** [[lesson training_loops]]; no GPU. What only a GPU can show is quoted with its
# source, computed, or "not measured here".
#
# "Two to three times faster" is what people say of AMP. Faster than what, on which GPU, and how was
# that measured? This lesson has three parts: how times are measured, what arithmetic allows, and
# what was really measured.

# %%
import statistics

import torch
from torch import nn

from amp_lessons import plots, roofline, timing
from amp_lessons.device import why_not
from amp_lessons.pretend_gpu import PretendGpu
from amp_lessons.records import load_records
from amp_lessons.roofline import GPUS, Matmul, find_gpu

h200 = find_gpu("H200")

# %% [markdown]
# ## A number to doubt
#
# PyTorch's [AMP recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) trains
# three linear layers. Somebody ran it with a width and a batch of 4096 and kept the output, which
# this course has as the record `seed_003`. **Predict:** the page says that mixed precision is
# faster and "reduces memory". Do its own numbers agree?

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
# Faster, and with *more* memory. And what do we know of the 2.33? One run of each, no warm-up, a
# clock on the wall, a GPU without a name, TF32 switches that nobody looked at, and no word on
# whether both trained equally well. It may be right. Nobody can tell.
#
# ## A GPU whose true times are known
#
# To learn how a measurement lies one must know the truth. So here is a `PretendGpu`: a queue, a
# host (the CPU, where Python runs) that runs ahead of it, and a clock that only these two move. Its
# times are made up; its traps are those of a real GPU. This step takes 2 ms. **Predict:** what does
# the clock say?

# %%
gpu = PretendGpu()
step = gpu.program("step", seconds=2e-3)
start = gpu.clock()
step(None)
print(f"after the launch:       {1e3 * (gpu.clock() - start):.3f} ms")
gpu.synchronize()
print(f"after the work is done: {1e3 * (gpu.clock() - start):.3f} ms")

# %% [markdown]
# A launch puts work into a queue and returns. The first line timed Python. Before each reading of
# the clock you must wait: `torch.cuda.synchronize()`, or two `torch.cuda.Event`s, marks in the
# queue that the GPU itself stamps. And the clock to read is `time.perf_counter()`: `time.time()`
# may be set back while you measure.
#
# Waiting alone does not make a benchmark. Here are 21 samples, each synchronised, of a step that
# is slow five times at first, and once in nine runs for reasons of its own. **Predict:** which
# summary comes close to 2 ms: the first sample, the mean, the median without warm-up, or after it?


# %%
def sample(gpu, step):
    """Seconds of one step, with the clock read when nothing is queued."""
    gpu.synchronize()
    start = gpu.clock()
    step(None)
    gpu.synchronize()
    return gpu.clock() - start


gpu = PretendGpu()
step = gpu.program("step", seconds=2e-3, cold=5, spike_every=9)
samples = [sample(gpu, step) for _ in range(21)]
print(f"first  {1e3 * samples[0]:6.2f} ms")
print(
    f"mean   {1e3 * statistics.mean(samples):6.2f} ms, {1e3 * statistics.mean(samples[5:]):6.2f} warm"
)
print(f"median {1e3 * statistics.median(samples):6.2f} ms")
print(f"median {1e3 * statistics.median(samples[:9]):6.2f} ms of the first nine")

# %% [markdown]
# The mean is wrong even when warm: two spikes of 100 ms are enough. The median of 21 shrugs off
# five slow starts and two spikes, but that of nine does not. Warm up *and* take the median, and say
# how far the samples are apart: the interquartile range (IQR), in which the middle half lies.
#
# That is what `timing.compare` does, the method behind this course's `amp-lessons bench`. It warms
# up until the median of three turns differs by at most 5% from that of the three before. Then it
# lets the steps take turns, and reports median and spread. **Predict:** will it find 2 ms and 1.25 ms?

# %%
gpu = PretendGpu()
old = gpu.program("old", seconds=2e-3, cold=5, spike_every=9, jitter=0.01)
new = gpu.program("new", seconds=1.25e-3, cold=5, spike_every=7, jitter=0.01)
steps = {"old": lambda: old(None), "new": lambda: new(None)}
clock = timing.WallClock(gpu.synchronize, gpu.clock)
times = timing.compare(steps, repeats=21, clock=clock)
for name, t in times.items():
    print(f"{name} {1e3 * t.median:.2f} ms, spread {t.spread:.1%}, {t.warm_up} turns of warm-up")
print(f"speed-up {times['old'].median / times['new'].median:.2f}")

# %% [markdown]
# This warm-up can be fooled. If the first 20 runs of a step are equally slow, its time looks stable
# after six turns. With 15 samples, most of them are slow too, and so is their median. If a step
# compiles or tunes itself for that long, run the comparison twice: the second one starts warm.
#
# Why in turns? A chip that gets warm gets slower. **Predict:** two steps of exactly 1 ms, on a
# device that slows down by half a percent with each launch; 30 samples of the one, then 30 of the
# other. Which one wins?

# %%
for in_turns in (False, True):
    gpu = PretendGpu(warming=0.005)
    a, b = (gpu.program(name, seconds=1e-3) for name in "ab")
    order = [a, b] * 30 if in_turns else [a] * 30 + [b] * 30
    taken = [(step, sample(gpu, step)) for step in order]
    medians = [statistics.median(t for step, t in taken if step is one) for one in (a, b)]
    print("in turns:          " if in_turns else "one after the other:", end=" ")
    print(f"a is {medians[1] / medians[0]:.2f} times as fast as b")

# %% [markdown]
# Two more lies need no clock. The data is made inside the timed region: both sides get slower by
# the same amount, and the gain shrinks. Or the *baseline* is moved: AMP looks several times as good
# against plain FP32 (called IEEE FP32, to tell it from TF32) as against TF32, as you will see
# below. What to write beside a number, then: GPU, versions, switches, warm-up, repeats, median,
# spread, clock, and how the losses compare.
#
# Here is the same on your machine, for real: the time of one product. The BF16 matrix is stored in
# BF16, so no cast is timed. On a CPU it says nothing about GPUs, and BF16 may be the slower one.
# **Predict:** which wins, and how large is the spread?

# %% tags=["live"]
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn((4096, 4096) if device == "cuda" else (256, 256), device=device)
low = x.bfloat16()


def ten_products(matrix, precision="ieee"):  # setting the precision takes time
    with timing.fp32_precision(precision):
        for _ in range(10):
            matrix @ matrix


steps = {"FP32": lambda: ten_products(x), "BF16": lambda: ten_products(low)}
if why_not("tf32"):
    print("TF32 is not measured here:", why_not("tf32"))
else:
    steps["TF32"] = lambda: ten_products(x, "tf32")
for name, t in timing.compare(steps, device).items():
    print(f"{device} {name}: {1e5 * t.median:8.1f} µs, spread {t.spread:.1%}, by {t.clock}")

# %% [markdown]
# ## How many FLOPs?
#
# Time alone does not say whether it is good. For that we count the work. A product of an (m, k) and
# a (k, n) matrix takes 2·m·n·k FLOPs: a multiplication and an addition for each of m·n·k pairs.
# **Predict:** how many products does one training step of the three layers have? (Forward and
# backward; each layer has a weight and an input.)

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
# Eight, not nine: "layer 1 gradient of the input" is missing, because nobody asks for the gradient
# of the data. So the run of 150 steps was 165 TFLOP. **Predict:** what rate is that in FP32 and
# with AMP, and which GPUs could *not* have done it?

# %%
for row in (fp32, amp):
    print(f"{row.mode:8} {row.tflops:.1f} TFLOP/s")
for one in GPUS:
    floor = roofline.seed_floor(one, "fp32"), roofline.seed_floor(one, "fp16")
    possible = floor[0] <= fp32.total_s and floor[1] <= amp.total_s
    verdict = "possible" if possible else "too slow in IEEE FP32"
    print(f"{one.name:14} at least {floor[0]:6.3f} s in FP32, {floor[1]:.3f} s in FP16: {verdict}")

# %% [markdown]
# These peaks are quoted, not measured: each `Gpu` in `amp_lessons.roofline` names NVIDIA's
# document. They are for *dense* matrices. The H200's
# [page](https://www.nvidia.com/en-us/data-center/h200/) says 1979 for FP16, "with sparsity", which
# is for weights of which two in four are zero; dense is half, 989. If you divide by 1979, your
# utilisation looks half as good as it is.
#
# A *floor* set by compute is firm: at the clock of the data sheet this arithmetic can't be done faster.
# (A chip may clock a few percent higher than its sheet.) A floor set by bandwidth is less firm. It
# holds for data that comes from the GPU's memory, and what still lies in the L2 cache (50 MB on an
# H100) comes faster. So benchmarks clear the cache between runs, as
# [Triton's `do_bench`](https://triton-lang.org/main/python-api/generated/triton.testing.do_bench.html)
# does. The floors above are set by compute. So the unnamed GPU was not a T4 or a V100, and not an
# A100 unless TF32 was on. By its peak memory it was not an H100 or an H200 either ([[deep
# memory]]). It also judges the result: on an H100 the run could take 2.5 s in FP32 and 0.17 s in
# FP16, so 7.7 s and 3.3 s would be poor; on an L4, with 5.4 s and
# 1.4 s, much less so. A speed-up says nothing of that.
#
# ## The limit of AMP's speed-up
#
# If all the time goes into large products, and the baseline comes as near to its peak as FP16 to
# its own, the ratio of the peaks is the limit. **Predict:** how much faster can FP16 become on an
# H200, against IEEE FP32? Against TF32? And on an RTX 4090?

# %%
print(f"{'':14} against FP32   against TF32")
for one in GPUS:
    limits = [f"{roofline.speedup_limit(one, 'fp32', 'fp16'):.1f}"]
    limits += [f"{roofline.speedup_limit(one, 'tf32', 'fp16'):.1f}" if one.tf32 else "no TF32"]
    print(f"{one.name:14} {limits[0]:>12}   {limits[1]:>12}")

# %% [markdown]
# 14.8 against FP32 and 2 against TF32, on the same chip. That is the moved baseline: which of the
# two a page quotes decides how AMP looks. An RTX 4090 allows 2 against either, since its TF32 is no
# faster than its FP32. (That is with sums in FP32, as PyTorch asks for. With sums in FP16 NVIDIA's
# paper promises twice as much, if you set `torch.backends.cuda.matmul.allow_fp16_accumulation`;
# [[lesson amp_from_scratch]] shows what such sums lose.) Nobody reaches a peak: the best products reached 87% of it
# on an A100 and 80% on an H100, in BF16
# ([measured](https://github.com/stas00/ml-engineering/blob/master/compute/accelerator/README.md#maximum-achievable-matmul-flops-comparison-table)
# by others; `timing.measured_peak` measures it on your GPU). And what is no product gains less, or
# nothing. So "AMP is two to three times faster on Ampere" is false as a rule: the peaks allow twice
# against TF32.
#
# ## TF32: know your baseline
#
# **Predict:** are FP32 matrix products computed in TF32 by default? Convolutions?

# %%
with timing.fp32_precision("ieee"):
    print("inside: ", timing.fp32_state())
with timing.fp32_precision("tf32"):
    print("inside: ", timing.fp32_state())
    try:
        torch.backends.cuda.matmul.allow_tf32  # the old switch
    except RuntimeError as error:
        print(f"{type(error).__name__}: {str(error).partition('. ')[0]}")
print("outside:", timing.fp32_state())

# %% [markdown]
# Products: no ("none" means that nobody has asked, and that is IEEE). The convolutions and RNNs of
# cuDNN, NVIDIA's library for them: yes. So with nothing set, a CNN's baseline on an A100 is TF32
# and a transformer's is not. Since PyTorch 2.9 the switches are called `fp32_precision`
# ([notes](https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices));
# the old `allow_tf32` must not be mixed with them, and here it says so. Once you have autocast,
# TF32 concerns only what stays in FP32.
#
# ## The roofline
#
# A GPU computes, and it moves bytes. Work whose *arithmetic intensity* (FLOPs for each byte moved)
# is below the *ridge*, peak by bandwidth, waits for the memory. **Predict:** a layer of 4096 by
# 4096 on an H200 in FP16: from which batch size on is it bound by compute?

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
# From 230 rows on. At batch 1 and 16 both formats wait for the weights to arrive, and FP16 helps by
# 2, because they are half as many bytes. Only where both are bound by compute is it 14.8.
# Elementwise ops (ReLU, dropout, the optimizer) lie far to the left, always: they get faster by
# moving fewer bytes, in 16 bits or by fusing (several ops in one, so that what lies between them is
# never stored).
#
# The factor of 2 is for weights that *are* FP16. Autocast's are FP32, and the cast moves bytes too:
# it reads 4 and writes 2 for each weight, in every step. **Predict:** how many times as fast does
# autocast make this layer's forward, the cast of its weight included, at batch 1? At 4096?

# %%
cast = (4 + 2) * 4096 * 4096 / h200.bytes_per_second()  # seconds, at least
for batch in (1, 16, 64, 256, 4096):
    work = Matmul(m=batch, n=4096, k=4096)
    fp32_floor, fp16_floor = (roofline.matmul_floor(h200, d, work) for d in ("fp32", "fp16"))
    ratio = fp32_floor / (cast + fp16_floor)
    print(f"batch {batch:5}: {ratio:5.2f} times as fast as FP32, at best")

# %% [markdown]
# By this count autocast takes *twice* as long as FP32 at batch 1. (A cache may spare the copy a
# part of its way; the 4 bytes of each weight have to be read all the same, so it cannot be faster.)
# With large batches the cast is small beside the product. For inference with small batches, store
# the weights in 16 bits ([[lesson training_loops]]).
#
# Try it with your GPU and your sizes. When is FP16 worth 14.8, when 2, when nothing?

# %% tags=["live"]
from amp_lessons.widgets import RooflineExplorer

RooflineExplorer("H200", "fp16", m=256, n=4096, k=4096)

# %% [markdown]
# ## Too small to be faster
#
# The recipe suggests sizes of 128, 256 and 513. **Predict:** how long does the GPU need at least
# for a product of 128 by 128, and how long does Python need to launch it?

# %%
for size in (128, 256, 513, 4096, 8192):
    work = Matmul(size, size, size)
    floors = {d: 1e6 * roofline.matmul_floor(h200, d, work) for d in ("fp32", "fp16")}
    odd = roofline.unaligned(work, "fp16")
    note = f"not a multiple of 8: {', '.join(odd)}" if odd else ""
    print(f"{size:5}: FP32 {floors['fp32']:9.2f} µs, FP16 {floors['fp16']:8.2f} µs  {note}")

# %% [markdown]
# A launch costs a few microseconds ([NVIDIA](https://developer.nvidia.com/blog/cuda-graphs/)), and
# PyTorch adds its own. At 128 the GPU is done in a fraction of one and waits for the next. Then the
# time is Python's. **Predict:** on the pretend GPU a launch costs 5 µs. 100 steps of 2 µs each;
# what is gained by a device that needs 0.5 µs?

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
# Nothing. Four times the speed helps from 50 to 12.5 µs and not from 2 to 0.5. Autocast even adds
# launches: each cast is one. "No speed-up with AMP" very often means this, and the cure is fewer,
# larger kernels (a kernel is what one launch runs): a larger batch, `torch.compile`, or CUDA
# graphs, which launch many kernels as one.
#
# 513 has another flaw. Tensor cores are fed in rows of 16 bytes, 8 numbers of 16 bits: sizes that
# are no multiples of 8 work since cuBLAS 11, but below their best ([NVIDIA's
# guide](https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html)).
# On an A100 multiples of 64 are best, says the guide. So a vocabulary of 50257 is padded to 50304.
#
# So where AMP brings no speed, look for one of these:
#
# | what is the matter | how it shows | what helps |
# |---|---|---|
# | launch-bound | floors of a few microseconds, times far above them | larger batch, `torch.compile`, CUDA graphs |
# | data-bound | the step is fast, the loop is not | more workers, data ready in time |
# | bandwidth-bound | mostly elementwise ops, or few rows | fuse, larger batch |
# | the baseline is TF32 | `timing.fp32_state()` | for products the peaks allow 2; attention may gain more, since FlashAttention runs in 16 bits only |
# | no tensor cores for the format | before Volta; BF16 before Ampere | another format, another GPU |
# | odd sizes | no multiples of 8 | pad |
# | a CPU without native 16-bit arithmetic | `amp-lessons doctor` says which it has | FP32, or the format that is native |
#
# Whether a GPU has BF16 is a question with a trap. **Predict:** what does
# `torch.cuda.is_bf16_supported()` count, if you say nothing more?

# %%
import inspect

print(inspect.signature(torch.cuda.is_bf16_supported))

# %% [markdown]
# Emulation too: it says True for any GPU that can make a BF16 tensor, tensor cores or not, such as
# a V100. Ask with `including_emulation=False`, as the bench and the doctor do.
#
# ## Memory beside the time
#
# The recipe's page claims to save memory too, and [[lesson memory]] has taken its peaks apart: most of the
# 7.5 GB are data that lay on the GPU before the first step, and what AMP added are the FP16 copies
# of the weights. A peak beside a time takes three rules: `torch.cuda.reset_peak_memory_stats()`
# before each run, the data's own bytes taken out, and no second model left over from the first run.
# The recipe also calls `gc.collect()` and `torch.cuda.empty_cache()`. The first frees tensors that
# only a cycle of references keeps alive. The second
# [gives cached blocks back](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
# to the driver: `nvidia-smi` shows less, and what your tensors hold stays the same.
#
# ## Equal quality
#
# A run that doesn't learn can be very fast. Here is the digit painter of
# [[lesson amp_in_20_minutes]] again, with its loss spread over 100 million pixels, in three runs: FP32,
# FP16 with a `GradScaler`, and FP16 without one. The last two run the same matrix products. **Predict:**
# whose times may be compared with FP32's?

# %%
from torch.nn.functional import mse_loss

from amp_lessons.training import autoencoder, load_digits

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
# Without a scaler, FP16 runs the same products and learns next to nothing: a stopwatch would not
# notice. Put the loss curves beside every speed-up; the bench records them for each mode.
#
# ## What was really measured
#
# Every record of the bench that this course has, by GPU. A record holds all samples; "share" is of
# a product's peak that was measured on the spot.

# %%
measured = [record for record in load_records() if record.kind == "measured"]
for record in measured:
    print(record.source)
    base = {row.workload: row.median_s for row in record.rows if row.mode == "FP32"}
    for row in record.rows:
        faster = f"{base[row.workload] / row.median_s:5.2f} x" if row.workload in base else ""
        share = f"{row.share:4.0%}" if row.share else ""
        time = f"{1e3 * row.median_s:8.3f} ms, spread {row.spread:.1%}"
        print(f"  {row.workload:24} {row.mode:20} {time} {faster} {share} {row.departs or ''}")
if not measured:
    print("no record of a CUDA run yet: speed on CUDA is not measured here")

# %%
from IPython.display import display

for record in measured:
    points = {}
    for row in record.rows:
        if row.intensity:
            points.setdefault(row.workload, {})[row.mode] = (row.intensity, 1e12 * row.tflops)
    peaks = record.details["peaks"]["flops"]
    display(plots.roofline(points, peaks, record.bandwidth, title=f"{record.gpu}, measured"))

# %% [markdown]
# On a machine with a CUDA GPU, `amp-lessons bench --record my_gpu.json` makes such a record: FP32, TF32,
# AMP in FP16 and BF16, and BF16 with `torch.compile`, by the method of this lesson. To see it in the
# cells above, load it with `read_record("my_gpu.json")` from `amp_lessons.records` and add it to
# `measured`: the list holds only records that come with the course. On a CPU
# `amp-lessons bench --quick` shows the table with small sizes, which says nothing about a GPU.
#
# Published, and quoted here: 1.5 to 5.5 times on a V100, where the limit is 8, and on an A100 a
# further 1.3 to 2.5 times over the V100's AMP
# ([PyTorch's
# blog](https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/)).
#
# ## Myths, tested
#
# | said | shown above |
# |---|---|
# | "AMP reduces memory", beside 7,533,332,992 → 7,634,019,840 bytes | its own peak rises; [[lesson memory]] says by what |
# | "2.33 times faster" | one run, no warm-up, GPU and TF32 unknown, no losses: nobody can tell |
# | "Volta 1.5–2 times, Ampere 2–3 times" | the peaks allow 8 on a V100; on an A100 16 against FP32, and 2 against TF32 |
# | "1979 TFLOP/s" | with sparsity; dense is 989 |
# | "set `allow_tf32`" | an old switch, and only for the FP32 products that remain |
# | "near-free" | more launches, more memory, and none of the speed where the work is small |
#
# ## Recap
#
# 1. Warm up, wait before each reading of the clock, sample in turns, report median and IQR.
# 2. A floor is FLOPs divided by the peak, or bytes divided by the bandwidth, whichever takes longer. A
#    time clearly below a compute floor is a mistake; below a bandwidth floor, suspect the cache.
# 3. AMP's limit is the ratio of the peaks: 14.8 on an H200 against FP32, 2 against TF32.
# 4. Small work waits for launches or for memory: bigger batches, fewer kernels, fewer bytes.
# 5. A speed-up counts at equal loss, with GPU, switches and spread beside it.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "speed.faster_than_floor",
    "speed.from_tf32_to_amp",
    "speed.one_row_at_a_time",
)

# %% [markdown]
# **Next:** [[exercises speed|seven exercises]]: fix two benchmarks that lie, summarise
# and judge times, count FLOPs, compute floors, and say what would help. Then [[lesson past_one_gpu]]: past one
# eager GPU.
