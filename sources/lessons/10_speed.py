# %% [markdown]
# # Lesson 10: Speed, measured
#
# "Mixed precision is two to three times faster." Faster than what, on which GPU, for which model?
# Before you measure anything yourself, you look at what others measured and published. Then you
# learn to measure without fooling yourself, and time a training step on your own machine.
#
# **You will be able to** say what to expect for your model on your GPU, time a step on a GPU
# correctly, and find out why mixed precision isn't faster for you.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]]; no GPU. Figures from GPUs are quoted
# with their source: this course hasn't run anything on CUDA yet.

# %%
import statistics

from amp_lessons import ask, predict
from amp_lessons.amp import roofline
from amp_lessons.amp.speed import (
    PretendGpu,
    load_profile,
    step_milliseconds,
    step_table,
    time_training,
    timing,
)
from amp_lessons.amp.speed import published as quoted
from amp_lessons.lessons import gain_plots

published = quoted.load_published()
pairs = published.best_pairs()  # one for each model variant and kind of GPU, on one GPU

# %% [markdown]
# ## What will I gain?
#
# NVIDIA has published training rates for 32 PyTorch models, with and without mixed precision. 25 of
# them were measured on one V100 and on one of the newer A100s. "Mixed" is FP16, except for BART and
# wav2vec 2.0, which use BF16 on an A100. What it is compared with depends on the GPU. On a V100 it
# is FP32. On an A100 it is TF32: matrix products and convolutions that take FP32 numbers, but round
# them to 11 significant bits on the way in.
#
# Here are six of the models:
#
# | model | what it is |
# |---|---|
# | BERT large | a language model of 24 large layers |
# | HiFi-GAN | speech from many thin convolutions |
# | nnU-Net 2D | a medical image network of convolutions |
# | SSD300 | an object detector on top of a ResNet50 |
# | Tacotron 2 | speech, made by LSTMs |
# | Transformer big | a translation model |

# %% tags=["question"]
predict("speed.six_models")

# %%
names = "BERT", "HiFi-GAN", "nnU-Net", "SSD300", "Tacotron 2", "Transformer big"
a100 = quoted.like_for_like(quoted.on(pairs, "A100"))
six = sorted(quoted.of(a100, *names), key=lambda pair: pair.speedup)
for pair in six:
    rates = f"{pair.rate_baseline:>10,.1f} → {pair.rate_mixed:>10,.1f} {pair.unit}"
    print(f"{pair.name:24} {rates:46} {pair.speedup:.2f} times as fast")
print("sources, such as", six[0].url)

# %% [markdown]
# With the same batch on both sides, the gains go from a loss to nearly 2, so "two to three times"
# is no answer. Tacotron 2 makes many small operations, which hardly gain, and autocast adds more of
# them.
#
# NVIDIA's tables have 287 pairs, several for each model. Here are the six models on both GPUs. A
# filled marker means that both sides had the same batch and, as far as we know, the same memory
# layout, which is the order of a picture's numbers in memory. An open marker means that one of
# these differs, or isn't printed.

# %%
for gpu in ("V100", "A100"):
    gains = [pair.speedup for pair in quoted.on(published.training, gpu)]
    print(f"{gpu}: {len(gains)} pairs, median {statistics.median(gains):.2f}", end=", ")
    print(f"from {min(gains):.2f} to {max(gains):.2f}")
every = quoted.first_variants(quoted.on_both(pairs))
gain_plots.dumbbell(quoted.of(every, *names))  # all 25 models: gain_plots.dumbbell(every)

# %% [markdown]
# All six gain less on the A100 than on the V100, and so do nearly all 25.
#
# ## What are you comparing with?
#
# Is mixed precision worse on the newer GPU?

# %% tags=["question"]
predict("speed.a100_without_amp")

# %%
alone = quoted.first_variants(quoted.one_gpu(published.training))
rates = quoted.four_rates(alone)
for row in rates:
    if row.name.startswith("BERT large seq 128"):
        print(f"V100: FP32 {row.v100_fp32:.0f}, mixed {row.v100_mixed:.0f} sequences/s")
        print(f"A100: TF32 {row.a100_tf32:.0f}, mixed {row.a100_mixed:.0f} sequences/s")
ahead = sum(row.a100_tf32 > row.v100_mixed for row in rates)
print(f"The A100 in TF32 is ahead of the V100 in mixed precision: {ahead} of {len(rates)} models")
# all 25 models: gain_plots.tf32_share(rates)
gain_plots.tf32_share(quoted.four_rates(quoted.of(alone, *names)))

# %% [markdown]
# The A100 in TF32 (open marker) starts where the older GPU in mixed precision (filled) ends, so
# there is less left to gain. (Each rate is the best that is printed for one GPU, so a few ratios
# differ from the figure above.)
#
# Is your own baseline TF32? With PyTorch's defaults, convolutions and RNNs use it on an A100 or
# newer, and matrix products don't: they run in FP32 as the standard says, called IEEE FP32.
# NVIDIA's containers switch TF32 on for products too, and so does
# `torch.set_float32_matmul_precision("high")`. [[deep speed]] shows the switches.
#
# So a transformer on an A100 with nothing set starts from IEEE FP32. No table here has that case.
# It will gain more than NVIDIA's 1.8, and a part of that comes from TF32 alone. Time FP32, TF32 and
# mixed precision.
#
# ## What else changed?
#
# Mixed precision often leaves room for a larger batch, and people use it. So in 56 of the 140 pairs
# on A100s the batch differs, or isn't printed.

# %% tags=["question"]
predict("speed.same_batch")

# %%
for kind in ("same batch", "other batch", "batch not printed"):
    for gpu in ("V100", "A100"):
        gains = [p.speedup for p in quoted.on(published.training, gpu) if p.comparison == kind]
        print(f"{gpu}, {kind:18} {len(gains):3} pairs, median {statistics.median(gains):.2f}")

# %% [markdown]
# With the same batch on both sides, the A100's median is only 1.42: a larger batch gains by itself.
# To learn what the *format* gives, compare runs of the same batch, the same memory layout and the
# same software. To learn what *you* gain, let mixed precision use the batch that fits. Both are
# honest if you say which it is.
#
# The size of the batch matters in another way too. Here is inference. (NVIDIA's script also changes
# the layout for mixed precision, at each batch.)

# %% tags=["question"]
predict("speed.batch_of_one")

# %%
chosen = quoted.of(published.inference, "ResNet50", "EfficientNet-b0", "SSD300")
gain_plots.gain_by_batch(chosen)

# %% [markdown]
# With one picture at a time, each of these runs is slower in mixed precision. With batches this
# small the GPU isn't the limit. Python starts each operation on the GPU. That is called a launch,
# and takes some microseconds. If the GPU is done sooner than that, it waits. Autocast adds
# launches, because each cast is one, so the step can get slower.
#
# ## Was it on at all?
#
# Lambda, who rent out GPUs, published runs on newer ones too, up to a B200. On the B200, four of
# the models labelled FP16 came out near 1.

# %% tags=["question"]
predict("speed.four_near_one")

# %%
models = ("ResNet50", "SSD300", "WaveGlow", "Tacotron 2")
print(quoted.across_gpus(published, models))
gain_plots.placebo(published.by_model())

# %% [markdown]
# WaveGlow and Tacotron 2 gain next to nothing on any GPU. Lambda's scripts for them pass
# `--amp-run`. NVIDIA's programs know `--amp`, and ignore what they don't know. The logs say it:
# `PARAMETER amp : False`, such as [this
# one](https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6a53675a649a80036dad548f1c27cbcc4/pytorch/results/H100_80GB_SXM5_v1/PyTorch_waveglow_FP16/14-02-2023_05-15-28.txt#L15)
# of WaveGlow on an H100. So 292 pairs labelled FP16, 130 of them on one GPU, compare 32 bits with
# 32 bits: a placebo. (Of NCF's runs, some had it on and some didn't.)
#
# A whole column can go wrong too. In NVIDIA's table of training *times* for SSD300 on A100s, TF32
# and mixed precision take equally long, although mixed precision's rates are 1.8 to 1.9 times as
# high. The script's default then was mixed precision, so it was probably AMP against AMP. Our data
# marks such times as suspect.
#
# One line in your program prevents this: assert the dtype of a linear layer's or a convolution's
# output, as in [[lesson autocast_ops]].
#
# ## And ResNet50 on the B200?
#
# There the log says that mixed precision was on, and still the gain is 1.04. Was the GPU waiting
# for the data loader or for launches, or was it busy itself? You can tell these apart with two
# measurements: double the batch, and train on one batch that stays on the GPU.

# %% tags=["question"]
predict("speed.double_the_batch")

# %%
machines = {"launches": (40, 0, 0.1), "loader": (10, 0.5, 0.2), "GPU": (10, 0.1, 0.4)}
print("waits for     batch 64   batch 128   batch 256   256, data on the GPU")
for name, (launch, loader, gpu) in machines.items():
    times = [step_milliseconds(batch, launch, loader, gpu) for batch in (64, 128, 256)]
    times.append(step_milliseconds(256, launch, 0, gpu))
    print(f"{name:8}", "".join(f"{time:9.0f} ms" for time in times))

# %% [markdown]
# Only the launches cost the same for each batch, and only the loader's wait ends with the data on
# the GPU. (The three machines are made up.) For the B200, [Lambda's
# log](https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6a53675a649a80036dad548f1c27cbcc4/pytorch/results_v2/LambdaOD_test_1xB200_192GB_129-213-83-251_v2/PyTorch_resnet50_AMP/10-12-2025_03-07-21.txt)
# answers. ResNet50 trains there on one made-up batch that stays on the GPU, so the loader is out. A
# step takes 0.558 s with 1,664 pictures in the run labelled FP32, and 1.077 s with 3,328 in mixed
# precision. A step's launches take milliseconds, so it is the GPU itself. One thing to try is the
# layout: both runs use `nchw`, where NVIDIA's mixed runs use channels_last.
#
# ## Equal quality?
#
# A run that learns nothing can be very fast. 25 of NVIDIA's pairs print the mean accuracy of
# several runs, and how far the runs lie apart: their standard deviation. The figure shows the six
# largest differences between mixed and 32-bit, in units of that spread, of both sides together.

# %%
spread = sorted(published.spread_pairs(), key=lambda pair: abs(pair.deviations))
print(gain_plots.within(spread))
gain_plots.accuracy_spread(spread[-6:])  # all 25 pairs: gain_plots.accuracy_spread(spread)

# %% [markdown]
# Two of 25 lie outside of two standard deviations, one on each side. Mixed precision is ahead in 16
# of the 25, and 32 bits in 8. Without the suspect ones, NVIDIA prints 135 pairs of final
# accuracies. In 121 of them the two values differ by at most 1%. Beside each speed-up of your own,
# put both loss curves.
#
# ## How a stopwatch lies on a GPU
#
# Now you measure. To see whether a method is right, one has to know the true time. So here is a
# `PretendGpu`: a queue, a clock, and steps whose duration we choose. Its traps are those of a real
# GPU. This step takes 2 ms. The cell reads the clock before the call, right after it, and once more
# after waiting.

# %%
gpu = PretendGpu()
step = gpu.program("step", seconds=2e-3)
start = gpu.clock()
step(None)
print(f"after the call:         {1e3 * (gpu.clock() - start):.3f} ms")
gpu.synchronize()
print(f"after the work is done: {1e3 * (gpu.clock() - start):.3f} ms")

# %% [markdown]
# The call returns as soon as the work is in the queue. Without waiting, a benchmark measures only
# Python. So wait before each reading of the clock: `torch.cuda.synchronize()`, or two
# `torch.cuda.Event`s, time stamps that the GPU itself writes.
#
# But waiting isn't all. The next step takes 2 ms too, but its first five runs are slow, and so is
# every ninth run, because somebody else uses the machine. The cell times 21 runs, and waits each
# time. It prints the first sample, the mean, the mean without the first five, and the median.


# %%
def sample(gpu, step):
    """Milliseconds of one run, with nothing queued before and after."""
    gpu.synchronize()
    start = gpu.clock()
    step(None)
    gpu.synchronize()
    return 1e3 * (gpu.clock() - start)


gpu = PretendGpu()
step = gpu.program("step", seconds=2e-3, cold=5, spike_every=9)
times = [sample(gpu, step) for _ in range(21)]
print(f"first {times[0]:.2f}, mean {statistics.mean(times):.2f}", end=", ")
print(f"mean after five {statistics.mean(times[5:]):.2f}, median {statistics.median(times):.2f} ms")

# %% [markdown]
# Warm up, then take the median, and say how far the samples are apart. And let the two versions
# take turns: a chip that gets warm may get slower, and the one that you measure last would lose.
#
# `timing.compare` does all of that. It warms up until the time is stable, lets the steps take
# turns, and measures again if the first half of the samples doesn't agree with the second.

# %%
gpu = PretendGpu(warming=0.0002)
old = gpu.program("old", seconds=2e-3, cold=20, spike_every=9, jitter=0.01)
new = gpu.program("new", seconds=1.25e-3, cold=20, spike_every=7, jitter=0.01)
clock = timing.WallClock(gpu.synchronize, gpu.clock)
found = timing.compare({"old": lambda: old(None), "new": lambda: new(None)}, clock=clock)
for name, t in found.items():
    print(f"{name} {1e3 * t.median:.2f} ms, spread {t.spread:.1%}")
print(f"speed-up {found['old'].median / found['new'].median:.2f}, true: 1.60")

# %% [markdown]
# ## What is the most that you can gain?
#
# A GPU's data sheet says how many operations a second it can do at most in each format. If all your
# time goes into large matrix products, and both formats reach the same share of their peaks, you
# gain the ratio of the peaks.

# %%
print(f"{'at most':14} from FP32   from TF32")
for gpu in roofline.GPUS:
    fp32 = roofline.speedup_limit(gpu, "fp32", "fp16")
    tf32 = f"{roofline.speedup_limit(gpu, 'tf32', 'fp16'):.1f}" if gpu.tf32 else "no TF32"
    print(f"{gpu.name:14} {fp32:>9.1f}   {tf32:>9}")

# %% [markdown]
# From TF32, the peaks allow a factor of about 2 on each of these GPUs that has it. Gains above that
# have other reasons: a baseline further from its peak, a larger batch, another layout, or a kernel
# that has no 32-bit version, such as FlashAttention. From FP32 the factor is 2 on an RTX
# 4090 and nearly 15 on an H100, so a page that doesn't name its baseline says little.
#
# In the explorer, choose a GPU and a model, and see what was published and the limit beside it.
# Which models gain more than 2 on an A100, and which reason is given?

# %% tags=["live"]
from amp_lessons.lessons.widgets import PublishedExplorer

PublishedExplorer()

# %% [markdown]
# ## Your own machine
#
# The next cell times a whole training step of three linear layers: forward, loss, backward,
# optimizer, with autocast and, for FP16, with a `GradScaler`. On a CUDA GPU the layers are 4096
# wide. On a CPU they are small, and the ratios say nothing about GPUs. "Of peak" is the share of
# the best rate that large products reach on your machine, in that format.

# %% tags=["live"]
report = time_training()
print(step_table(report))

# %% [markdown]
# Time your own model with `time_training(make_model, make_batch)`. With a GPU, go on with
# `amp-lessons bench --record my_gpu` in a terminal: it measures three models in each format, the
# CNN in two memory layouts. It writes a file to the `records` folder of your workspace. (On Colab,
# put `!` before the command.) The next cell puts your record beside the published runs.

# %% tags=["live"]
from amp_lessons.amp.speed import load_records, own_records, published_beside

measured = [record for record in load_records() if record.kind == "measured"]
for record in measured + own_records():
    print(record.source)
    for beside in published_beside(record):
        print(beside)

# %% [markdown]
# ## Where does the time go?
#
# If you gain less than you hoped, look inside the step. `torch.profiler` lists how long each
# operation took. This profile was made on a CPU and is stored with the course.

# %%
stored = load_profile()
print(stored.source)
for profile in stored.by_precision.values():
    print(profile.table(4))

# %% [markdown]
# The products are called `addmm` where a bias is added, and `mm` where not. They get 4 to 5 times
# faster. The casts don't come for free: `copy_` now takes 15% of the step. And what isn't a product
# can gain little: `add_` takes 75 µs instead of 83. On your GPU, `torch.profiler` with
# `ProfilerActivity.CUDA` lists kernels in the same way.
#
# If mixed precision isn't faster for you, go through this list from the top:
#
# | what it may be | how you notice | what helps |
# |---|---|---|
# | AMP is off | a linear layer's output is float32 | switch it on |
# | the stopwatch didn't wait | a model of twice the width takes no longer either | `torch.cuda.synchronize()` before each reading |
# | the GPU waits for launches | twice the batch takes as long | larger batch, `torch.compile`, CUDA graphs |
# | the GPU waits for data | one batch kept on the GPU is much faster | more workers, `pin_memory` |
# | the format has no tensor cores here | BF16 on a T4 or V100 | FP16 |
# | the baseline was TF32 already | `timing.fp32_state()` | nothing: on an A100 or H100 TF32 took its part of the gain before |
# | the work moves bytes instead of computing | mostly elementwise operations, or few rows | fused kernels, larger batch |
# | sizes that aren't multiples of 8 | a vocabulary of 50,257 | pad it, for example to 50,304, a multiple of 64 |
#
# ## Recap
#
# 1. Ask for the baseline first. From TF32 the peaks allow 2, and the median of NVIDIA's A100 pairs
#    of equal batch is 1.4. From FP32 it was about 2.1 on a V100.
# 2. The gain depends on where the time goes. On an A100, at equal batch, it was 0.84 for
#    Tacotron 2's many small operations, and 1.92 for SSD300's convolutions, whose layout isn't
#    printed.
# 3. Compare equal batch, layout and software if you want to know what the format gives.
# 4. Wait for the GPU, warm up, take turns, report the median and its spread.
# 5. Assert the dtype, and put both loss curves beside the speed-up.
#
# ## Three questions

# %% tags=["question"]
ask(
    "speed.faster_than_floor",
    "speed.from_tf32_to_amp",
    "speed.one_row_at_a_time",
)

# %% [markdown]
# **Next:** [[exercises speed|the exercises]]: fix benchmarks that lie, judge times, count
# FLOPs, find rows that can't be right. Then [[lesson compile_and_checkpoint]]: a faster model, and a block
# that runs twice. Optional: [[deep speed]], on floors and the roofline, on the switches for TF32, and on caches, clocks and
# kernels.
