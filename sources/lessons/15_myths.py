# %% [markdown]
# # Lesson 15: Myths, tested
#
# In a code review a colleague writes: "AMP keeps a master copy of the weights." An interviewer says:
# "You always use a GradScaler." It sounds right, and you have read it somewhere. Is it true?
#
# Here are such claims, from four pages that people find on the web: an interview question, a quiz,
# a guide and a benchmark. We tell them in our own words, and we picked the ones that sound doubtful.
# For each you see where it holds, a short proof, and what to say instead.
#
# **You will be able to** say where each of these claims holds, and try any other claim about AMP in a
# few lines of code.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]] and the lessons before it; no GPU. All
# cells run on a CPU, with PyTorch 2.13. For claims about CUDA we ask CUDA's autocast rules on fake tensors
# ([[lesson autocast_ops]]). Where only a GPU can decide, we say so.
#
# ## The verdicts
#
# This table is for looking things up. The text begins below it, with
# [the first page](#Page-one%3A-an-interview-question). Click a claim to see its proof.
#
# **False** means that a claim holds in none of the cases that we tried. **True only when …** means that it
# holds in some of them, and the rest of the sentence says in which. Some claims advise a call with an old
# name. There we tried two things: does it work, and is the name still current?
#
# | | somebody says | it is |
# |---:|---|---|
# | 1 | [torch.cuda.amp.autocast takes a device_type](#1.-torch.cuda.amp.autocast-takes-a-device_type) | **false**: it has no such argument; `torch.autocast` has |
# | 2 | [AMP is imported from torch.cuda.amp](#2.-AMP-is-imported-from-torch.cuda.amp) | **true only when** you mean that it works |
# | 3 | [Autocast runs most operations in FP16](#3.-Autocast-runs-most-operations-in-FP16) | **true only when** you count what a network runs, in ops or FLOPs |
# | 4 | [AMP keeps a master copy of the weights](#4.-AMP-keeps-a-master-copy-of-the-weights) | **true only when** you mean the paper's recipe for an FP16 model |
# | 5 | [BF16 has no underflow risk](#5.-BF16-has-no-underflow-risk) | **true only when** all numbers stay above 1e-38, as gradients mostly do |
# | 6 | [A forward pass under BF16 autocast is BF16 training](#6.-A-forward-pass-under-BF16-autocast-is-BF16-training) | **false**: without a backward pass and a step nothing is trained |
# | 7 | [Printing the type of the loss shows its precision](#7.-Printing-the-type-of-the-loss-shows-its-precision) | **false**: `type(loss)` is `torch.Tensor` for every dtype; print `loss.dtype` |
# | 8 | [Autocast keeps the loss in FP32](#8.-Autocast-keeps-the-loss-in-FP32) | **true only when** the loss ends in an op that autocast runs in FP32, such as `mse_loss` |
# | 9 | [A loss that was not scaled raises an error](#9.-A-loss-that-was-not-scaled-raises-an-error) | **true only when** the scaler is enabled and has never scaled anything |
# | 10 | [Only the optimizer step belongs outside autocast](#10.-Only-the-optimizer-step-belongs-outside-autocast) | **false**: `backward()` belongs outside too; inside, it can change gradients |
# | 11 | [AMP costs no accuracy](#11.-AMP-costs-no-accuracy) | **true only when** all values fit into the 16-bit dtype and its rounding does no harm |
# | 12 | [Mixed precision means FP16 and FP32](#12.-Mixed-precision-means-FP16-and-FP32) | **true only when** the region's dtype is FP16: CUDA's default, but not a CPU's |
# | 13 | [AMP makes the model smaller](#13.-AMP-makes-the-model-smaller) | **true only when** you mean the activations |
# | 14 | [The basic FP16 loop needs no scaler](#14.-The-basic-FP16-loop-needs-no-scaler) | **true only when** no gradient that matters is too small for FP16 |
# | 15 | [Scale, step and update make a whole loop](#15.-Scale%2C-step-and-update-make-a-whole-loop) | **false**: without `zero_grad` one inf stays in `.grad`, and every later step is skipped |
# | 16 | [The scaler makes a scaled optimizer step](#16.-The-scaler-makes-a-scaled-optimizer-step) | **false**: it divides by the scale, looks for inf and NaN, and then steps or skips |
# | 17 | [Autocast and inference_mode are all it takes to serve a model](#17.-Autocast-and-inference_mode-are-all-it-takes-to-serve-a-model) | **false**: `eval()` is missing, and a model that you cast once needs no autocast |
# | 18 | [CPU tensors under CUDA autocast raise an error](#18.-CPU-tensors-under-CUDA-autocast-raise-an-error) | **false**: autocast for one device leaves tensors on another alone |
# | 19 | [NaN in the loss comes from underflow](#19.-NaN-in-the-loss-comes-from-underflow) | **true only when** a logarithm or a quotient meets the zeros |
# | 20 | [Autocast fixes dtype mismatches](#20.-Autocast-fixes-dtype-mismatches) | **true only when** the op is on one of its lists, runs inside the region and returns a new tensor |
# | 21 | [Softmax and reductions run in FP32](#21.-Softmax-and-reductions-run-in-FP32) | **true only when** you mean softmax, `sum` or `norm` on a GPU |
# | 22 | [Autocast scales the gradients](#22.-Autocast-scales-the-gradients) | **true only when** you add a GradScaler |
# | 23 | [AMP needs an NVIDIA GPU of compute capability 7](#23.-AMP-needs-an-NVIDIA-GPU-of-compute-capability-7) | **false**: autocast also works on CPU, XPU and MPS, and CUDA's on AMD's GPUs |
# | 24 | [An op without FP16 support rules AMP out](#24.-An-op-without-FP16-support-rules-AMP-out) | **false**: a disabled region, or `custom_fwd` with `cast_inputs`, runs that one op in FP32 |
# | 25 | [AMP saves 30 to 50 per cent of the memory](#25.-AMP-saves-30-to-50-per-cent-of-the-memory) | **true only when** activations fill most of the memory |
# | 26 | [AMP is 1.5 to 2 times as fast on Volta and 2 to 3 times on Ampere](#26.-AMP-is-1.5-to-2-times-as-fast-on-Volta-and-2-to-3-times-on-Ampere) | **true only when** the products are large and the baseline doesn't use TF32 |
# | 27 | [Always use a GradScaler](#27.-Always-use-a-GradScaler) | **true only when** the dtype is FP16 and the trouble is in small gradients |
# | 28 | [Skipped steps mean that the scaling is broken](#28.-Skipped-steps-mean-that-the-scaling-is-broken) | **false**: a few skips at the start are how the scaler finds its scale |
# | 29 | [The TF32 switch makes AMP faster](#29.-The-TF32-switch-makes-AMP-faster) | **true only when** FP32 products are left in the model |
# | 30 | [custom_fwd sets the precision of your Function](#30.-custom_fwd-sets-the-precision-of-your-Function) | **true only when** you give it `cast_inputs` |
# | 31 | [The speed-up is nearly free](#31.-The-speed-up-is-nearly-free) | **true only when** the products are large |
# | 32 | [Call reset_max_memory_allocated before you measure](#32.-Call-reset_max_memory_allocated-before-you-measure) | **true only when** you mean that it works |
# | 33 | [The benchmark shows that AMP reduces memory](#33.-The-benchmark-shows-that-AMP-reduces-memory) | **false**: its own peak rises, by the FP16 copies of the weights |
# | 34 | [The benchmark shows what AMP gains](#34.-The-benchmark-shows-what-AMP-gains) | **false**: its method finds a gain between equal programs, and it names no GPU |
# | 35 | [With a device variable the script runs anywhere](#35.-With-a-device-variable-the-script-runs-anywhere) | **true only when** every line uses it |
# | 36 | [set_to_none makes zero_grad faster](#36.-set_to_none-makes-zero_grad-faster) | **true only when** you compare it with `set_to_none=False` |

# %%
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons import ask, op_policy, plots, policy_table, predict
from amp_lessons.amp import training
from amp_lessons.amp.policy import counts
from amp_lessons.lessons.experiments import raised, warned
from amp_lessons.lessons.myths import proofs

warnings.simplefilter("ignore", FutureWarning)  # the cells print the warnings that matter
fp16 = proofs.fp16  # an FP16 autocast region on the CPU
layer, x, y = nn.Linear(8, 3), torch.ones(4, 8), torch.zeros(4, 3)

# %% [markdown]
# Each cell below tries a few claims, and its lines begin with their numbers. `raised` returns the error
# that a call raises, and `warned` its warning. `op_policy` and `policy_table` return autocast's rules, for
# one op or for all ([[lesson autocast_ops]]). Longer set-ups are in `proofs`. To read one, run
# `proofs.limit??` in a cell, for example.
#
# ## Page one: an interview question
#
# ### 1. torch.cuda.amp.autocast takes a device_type
#
# **False**, with a GPU or without. `torch.cuda.amp.autocast` is made for CUDA and nothing else, so it
# has no such argument. The page's code stops at its first `with`. Write
# `torch.autocast("cuda", dtype=torch.float16)`.
#
# ### 2. AMP is imported from torch.cuda.amp
#
# **True only when** you mean that it works. Since PyTorch 2.4 the old names are deprecated: they still
# work, and each call gives a FutureWarning. Write `torch.autocast` and
# `torch.amp.GradScaler("cuda")`: the same names serve other devices too.
#
# ### 3. Autocast runs most operations in FP16
#
# **True only when** you count what a network runs. By autocast's *rules* it is false. But the ops
# that are cast to FP16 do nearly all the arithmetic, and many others continue with the FP16 that
# they get. Say: "Autocast runs matrix products, convolutions and attention in FP16."

# %% tags=["question"]
predict("myths_and_clinic.how_many_rules_cast")

# %%
old = torch.cuda.amp
print("1", raised(lambda: old.autocast(device_type="cuda")))
for name, use in {"autocast": old.autocast, "GradScaler": old.GradScaler}.items():
    print(f"2 {name}:", warned(use))
rules = counts(policy_table("cuda", torch.float16))
share = rules["lower precision"] / sum(rules.values())
print(f"3 CUDA's rules: {rules['lower precision']} ops, or {share:.0%}, are cast to FP16")
seen = proofs.small_transformer()
low = sum(row.dtype_out == "float16" for row in seen.rows)
print(f"3 a small transformer: {low} of {len(seen.rows)} ops return FP16,", end=" ")
print(f"with {seen.totals.share_16bit:.0%} of the products' FLOPs")

# %% [markdown]
# ### 4. AMP keeps a master copy of the weights
#
# **True only when** you mean the recipe of the [paper](https://arxiv.org/abs/1710.03740). There the model
# is FP16, and each weight has an FP32 master that takes the updates. You built that in
# [[lesson amp_from_scratch]]. With `torch.autocast` the parameters themselves are FP32, and autocast
# makes 16-bit copies of them for a while. AdamW holds its averages and no second weight.
#
# ### 5. BF16 has no underflow risk
#
# **True only when** all numbers stay above 1e-38, as gradients mostly do. FP32 reaches only a little
# further down. So underflow is hardly ever BF16's problem. Rounding is: BF16 keeps only 8 significant
# bits. If the weights are *stored* in BF16, as after `model.bfloat16()`, small updates get lost or
# distorted. Under autocast they are stored in FP32.
#
# ### 6. A forward pass under BF16 autocast is BF16 training
#
# **False.** The page's example for BF16 ends after the forward pass, so nothing is trained. Compared
# with FP16, you leave out the scaler and nothing else. And for speed it needs a newer GPU than FP16
# does: BF16 came to NVIDIA's tensor cores with
# [Ampere](https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/).

# %% tags=["question"]
predict("myths_and_clinic.hundred_small_updates")

# %%
model = nn.Linear(8, 3)
optimizer = torch.optim.AdamW(model.parameters())
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = F.mse_loss(model(x), y)
loss.backward()
optimizer.step()
print("4 the weight is", model.weight.dtype, "and AdamW keeps", *optimizer.state[model.weight])
print("4 the paper's weight and its master, after an update:", *proofs.papers_step())
weight = torch.tensor(1.0, dtype=torch.bfloat16)
for _ in range(100):
    weight -= 0.003
print(f"5 the weight ends at {weight:.2f}")
print("5 2^-120 and 2^-140 in BF16:", *torch.tensor([2.0**-120, 2.0**-140]).bfloat16().tolist())
for steps in ("forward", "forward, backward, step"):
    print(f"6 {steps}: the weights move by {proofs.moved(steps):.3f}")

# %% [markdown]
# The weight of claim 5 ended at 0.61. Just below 1, BF16's numbers are 0.0039 apart, so each update
# of 0.003 counted as 0.0039.
#
# ## Page two: a quiz
#
# ### 7. Printing the type of the loss shows its precision
#
# **False.** The quiz prints `type(loss)` to learn the precision. But a loss has the type
# `torch.Tensor`, in FP32 as in FP16. Print `loss.dtype`.
#
# ### 8. Autocast keeps the loss in FP32
#
# **True only when** the loss ends in an op that autocast runs in FP32, such as `mse_loss`. Autocast
# has rules for ops, and doesn't know which tensor is your loss. `mul` and `mean` have no such rule, on
# a CPU or on CUDA. So a loss that you write by hand can be FP16, and overflow. (With an FP32
# target the difference is FP32, by PyTorch's type promotion.)
#
# ### 9. A loss that was not scaled raises an error
#
# **True only when** the scaler is enabled and has never scaled anything. Then `scaler.step` raises,
# not `backward`. A forgotten `scaler.scale` in a later step, or for the second of two losses, raises
# nothing: `step` divides the gradients all the same.

# %%
for dtype in (torch.float32, torch.float16):
    loss = torch.tensor(1.0, dtype=dtype)
    print("7", type(loss), loss.dtype)
with fp16():
    output = layer(x)
    print("8 mse_loss gives", F.mse_loss(output, y).dtype)
    print("8 the same by hand gives", (output * output).mean().dtype)
print("9 a new scaler:", raised(lambda: proofs.weight_after(scaled=False)))
weight = proofs.weight_after(scaled=False, used=True)
print(f"9 a scaler in use: the weight moves from 3 to {weight:.5f}")

# %% [markdown]
# ### 10. Only the optimizer step belongs outside autocast
#
# **False**: `backward()` belongs outside too. Inside, autocast casts the products of the backward
# pass. Here a layer is kept in FP32 on purpose, and its gradient changes a little.
# A step of SGD or Adam has nothing that autocast would cast. (A few optimizers do:
# [[lesson autocast_regions]].)
#
# ### 11. AMP costs no accuracy
#
# **True only when** all values fit into the 16-bit dtype and its rounding does no harm. The
# [paper](https://arxiv.org/abs/1710.03740) found no loss for its networks. For yours, compare. Below, a
# network learns digits from pixels up to 1, and from pixels up to a million, as unscaled data can be.
#
# In FP16 a million is inf and the loss is NaN, so the scaler skips each step. A NaN output counts
# as digit 0 here, and 9% of the 450 validation images show it.

# %%
inside, outside = (proofs.gradient_of_an_fp32_layer(place) for place in (True, False))
print(f"10 backward inside: the gradient changes by {proofs.apart(inside, outside):.1%}")
inside, outside = (proofs.weights_after_adam(place) for place in (True, False))
print(f"10 Adam's step inside: the weights change by {proofs.apart(inside, outside):.0%}")
formats = {"FP32": None, "FP16": torch.float16, "BF16": torch.bfloat16}
for pixel in (1.0, 1e6):
    accuracies = {name: proofs.digits_accuracy(pixel, d) for name, d in formats.items()}
    good = ", ".join(name for name, accuracy in accuracies.items() if accuracy > 0.9)
    poor = ", ".join(name for name, accuracy in accuracies.items() if accuracy < 0.1)
    print(f"11 pixels up to {pixel:,.0f}: over 90% right: {good}; under 10%: {poor or 'none'}")

# %% [markdown]
# ## Page three: a guide
#
# ### 12. Mixed precision means FP16 and FP32
#
# **True only when** the region's dtype is FP16, as on CUDA if you name none. The guide never
# mentions BF16, which is the default on a CPU and the first choice on GPUs that have it
# ([[lesson amp_in_20_minutes]]).
#
# ### 13. AMP makes the model smaller
#
# **True only when** you mean the activations. Parameters, gradients and the optimizer's averages stay
# in FP32. Autocast even adds 16-bit copies of the weights for a while, in its cast cache. The cell
# counts the bytes of a training step of a small transformer by CUDA's rules ([[lesson memory]]).
#
# ### 14. The basic FP16 loop needs no scaler
#
# **True only when** no gradient that matters is too small for FP16. The guide's first loop has
# autocast and no scaler. That works until a loss is small, or is multiplied by a small factor. Then
# gradients become zero, and no error tells you.

# %%
for device in ("cuda", "cpu"):
    print(f"12 default on {device}:", torch.get_autocast_dtype(device))
fp32, amp = proofs.step_memory("fp32", rows=16), proofs.step_memory("amp fp16", rows=16)
for part in ("parameters", "gradients", "optimizer", "data", "activations", "cast_cache"):
    print(f"13 {part}: {getattr(fp32, part):,} bytes, with autocast {getattr(amp, part):,}")
for factor in (1.0, 2.0**-30):
    print(f"14 loss times {factor:.1g}: the largest gradient is", end=" ")
    print(f"{proofs.largest_gradient(factor):.1g}")

# %% [markdown]
# ### 15. Scale, step and update make a whole loop
#
# **False.** The guide's loop has these three calls and no `zero_grad`. Without it, gradients add up,
# and an inf stays in `.grad` forever: inf plus anything is inf or NaN. So after one overflow the scaler
# skips every later step.
#
# ### 16. The scaler makes a scaled optimizer step
#
# **False**, although a comment in the guide says it. `scaler.step` first divides the gradients by the
# scale and looks for inf and NaN. Then it makes an ordinary step, or none. (A fused optimizer divides
# and skips by itself.) Scaling protects the backward pass, and the update doesn't see it.
#
# ### 17. Autocast and inference_mode are all it takes to serve a model
#
# **False.** `inference_mode` doesn't switch dropout off; `model.eval()` does. And an FP32 model under
# autocast pays for casts in every call, since the cache keeps nothing under `inference_mode`
# ([[lesson autocast_regions]]). For serving, cast the model once, with `model.half()` or
# `model.bfloat16()`, call `eval()`, and compare its answers with those of the model that you trained.


# %%
def ten_calls(model, rows):
    with torch.inference_mode(), fp16():
        for _ in range(10):
            model(rows)


print("15 an inf in step 1, and no zero_grad: skipped", proofs.skipped_without_zero_grad())
print(f"16 weight 3, gradient 6, learning rate 0.1: {proofs.weight_after():.1f} after the step")
print(f"16 the same with an inf gradient: {proofs.weight_after(overflow=True):.1f}")
print("17 FP32 model:", proofs.casts(lambda: ten_calls(layer, x)), "casts in ten calls")
model, rows = nn.Linear(8, 3).half(), x.half()
print("17 FP16 model:", proofs.casts(lambda: ten_calls(model, rows)), "casts in ten calls")
with torch.inference_mode():
    zeros = (nn.Dropout(0.5)(torch.ones(1000)) == 0).sum().item()
print(f"17 dropout without eval() makes about {round(zeros, -2)} of 1,000 numbers zero")

# %% [markdown]
# ### 18. CPU tensors under CUDA autocast raise an error
#
# **False.** The guide blames such tensors for "Operation not permitted". But a region is for one type
# of device, and leaves tensors on others alone. Two matrices on two devices in *one* op raise an error,
# with autocast or without.
#
# ### 19. NaN in the loss comes from underflow
#
# **True only when** a logarithm or a quotient meets the zeros. Gradients that underflow are zero, and
# the loss stands still. For a NaN look first for numbers that are too large, since inf − inf and
# 0 · inf are NaN.
#
# ### 20. Autocast fixes dtype mismatches
#
# **True only when** the op is on one of autocast's lists, runs inside the region and returns a new
# tensor (not in place, no `out=`). Other mismatches remain: after the region, or in an op on no list,
# such as `scatter`. And autocast doesn't cast FP64 and integer tensors at all. Find the tensor with the
# unexpected dtype, and cast it.
#
# ### 21. Softmax and reductions run in FP32
#
# **True only when** you mean softmax, `sum` or `norm` on a GPU: under autocast they return FP32.
# Autocast leaves mean, var and std alone there. On a CPU it leaves all six alone.

# %% tags=["question"]
predict("myths_and_clinic.mean_of_ten_thousand")

# %%
with proofs.cuda_rules():
    print("18 a CPU layer in a CUDA region returns", layer(x).dtype)
losses = training.train_digits("fp16 unscaled", 30, loss_factor=1e-6).losses
zero = torch.tensor(0.0, dtype=torch.float16)
print(f"19 most gradients are zero: loss {losses[0]:.2f}, 30 steps later {losses[-1]:.2f}")
print(f"19 0 log 0 = {zero * zero.log()}, 0 / 0 = {zero / zero}")
with fp16():
    features, weight = layer(x).detach(), torch.ones(3, 2)
    print("20 a product, inside:", raised(lambda: features @ weight))
    print("20 in place:", raised(lambda: y.index_copy_(0, torch.arange(4), features)))
print("20 a product, after the region:", raised(lambda: features @ weight))
for device in ("cuda", "cpu"):
    print(f"21 {device}:", {op: op_policy(op, device).group for op in ("softmax", "sum", "mean")})
mean = torch.full((10_000,), 1.1).half().mean()
print(f"21 the mean is {mean:.4f}, {mean.dtype}")

# %% [markdown]
# The mean of claim 21 is right: the kernel adds in a wider format, and rounds only the result to
# FP16.
#
# ### 22. Autocast scales the gradients
#
# **True only when** you add a GradScaler. The guide lists gradient scaling among the things that AMP
# does by itself. Autocast chooses dtypes and nothing else. Scaling is a separate object with calls
# of its own.
#
# ### 23. AMP needs an NVIDIA GPU of compute capability 7
#
# **False.** You have run autocast and a GradScaler on a CPU. PyTorch also has autocast for Intel's and
# Apple's GPUs, and "cuda" means AMD's GPUs too. Capability 7.0 is where NVIDIA's tensor cores begin,
# so from there on FP16 can be much faster.
#
# ### 24. An op without FP16 support rules AMP out
#
# **False.** `torch.logdet` has no FP16 version, and stops with an error. Run this one op in FP32: in a
# disabled region with a `.float()`, or in a Function with `custom_fwd(cast_inputs=torch.float32)`,
# which does both ([[lesson losses_and_ops]]).
#
# ### 25. AMP saves 30 to 50 per cent of the memory
#
# **True only when** activations fill most of the memory. They grow with the batch, and weights,
# gradients and the optimizer's averages don't. Say for which model and batch you counted, or measured.

# %% tags=["question"]
predict("myths_and_clinic.memory_of_one_short_sequence")

# %%
for name, scaled in {"autocast alone": False, "with a GradScaler": True}.items():
    gradient = proofs.largest_gradient(2.0**-30, scaled=scaled)
    print(f"22 {name}: the largest gradient is {gradient:.1g}")
known = ("cpu", "cuda", "mps", "xpu")
print("23 autocast is there for", *filter(torch.amp.is_autocast_available, known))
with fp16():
    gram = torch.eye(3) @ torch.eye(3)
    print("24 as it is:", raised(lambda: torch.logdet(gram)).partition(": ")[2])
    print("24 with cast_inputs:", proofs.LogDet.apply(gram).dtype)
    with fp16(enabled=False):
        print("24 in a disabled region:", torch.logdet(gram.float()).dtype)
for rows, length in ((16, 64), (1, 16)):
    saved = proofs.saving(rows, length)
    print(f"25 sequences: {rows}, tokens in each: {length}, memory saved: {saved:.0%}")

# %% [markdown]
# A short sequence needs more memory than before: it has few activations to shrink, and each weight gets a copy.
#
# ### 26. AMP is 1.5 to 2 times as fast on Volta and 2 to 3 times on Ampere
#
# **True only when** the products are large and the baseline doesn't use TF32; and even then, measure.
# From data sheets you can only compute an upper limit, and only if both versions use the same share of
# the GPU's peak ([[lesson speed]]).
#
# Take one product with an FP32 weight of 4096 by 4096, which autocast casts first. We assume that
# the GPU's own cache holds nothing. Over TF32 on an A100 the limit stays below 2: "2 to 3" needs a
# less efficient TF32 kernel. Over plain FP32, with many rows, there is room for the guide's ranges
# and for more: for V100s, PyTorch's
# [blog](https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/)
# reports 1.5 to 5.5 times.

# %% tags=["question"]
predict("myths_and_clinic.limit_for_one_row")

# %%
limits = {}
for gpu, baseline in (("A100", "fp32"), ("V100", "fp32"), ("A100", "tf32")):
    name = f"{gpu} over {baseline.upper()}"
    limits[name] = [proofs.limit(gpu, baseline, 2**power) for power in range(13)]
    print(f"26 {name}: {limits[name][0]:.1f} for 1 row, {limits[name][-1]:.1f} for 4,096 rows")
plots.training(
    limits,
    title="One product, with the cast of its weight: what FP16 autocast can gain at most",
    xlabel="rows, as a power of two",
    ylabel="times as fast",
)

# %% [markdown]
# For one row, autocast is slower: it reads the FP32 weight, writes a copy, and reads that again.
# The more rows share the copy, the larger the gain.
#
# ### 27. Always use a GradScaler
#
# **True only when** the dtype is FP16 and the trouble is in small gradients. BF16 holds these without
# help. And if the forward pass overflows, the scaler can only skip and halve its scale, again and
# again. Then use BF16, or FP32 for the part that overflows.
#
# ### 28. Skipped steps mean that the scaling is broken
#
# **False.** A few skips at the start are how the scaler finds its scale. Below, the loss is the sum
# over 128 images, so its gradients are large. Worry if the skips don't end, or if the scale falls
# below 1 ([[lesson grad_scaler]]).
#
# ### 29. The TF32 switch makes AMP faster
#
# **True only when** FP32 products are left in the model. TF32 is a way to multiply FP32 matrices, and
# autocast has cast the operands of most products to 16 bits. For the rest set
# `torch.backends.cuda.matmul.fp32_precision = "tf32"`, and don't mix it with the older flags. (We count
# FP32 products here. Nothing is timed.)

# %%
for name, dtype in {"FP16": torch.float16, "BF16": torch.bfloat16}.items():
    alone = proofs.largest_gradient(2.0**-30, dtype)
    helped = proofs.largest_gradient(2.0**-30, dtype, scaled=True)
    print(f"27 small gradients in {name}: {alone:.1g} alone, {helped:.1g} with a scaler")
print("27 the forward pass overflows: after 20 steps the scale is", proofs.forward_overflows())
skipped, losses = proofs.digits_with_a_large_loss()
print(f"28 skipped {skipped} of 100 steps; the loss falls from {losses[0]:.0f} to {losses[-1]:.0f}")
for enabled in (True, False):
    with fp16(enabled):
        number = proofs.fp32_products(lambda: layer(x))
    print(f"29 a layer, autocast {'on' if enabled else 'off'}: FP32 products: {number}")

# %% [markdown]
# ### 30. custom_fwd sets the precision of your Function
#
# **True only when** you give it `cast_inputs`. Alone, it only notes autocast's state, so that
# `custom_bwd` can restore it in the backward pass. That is worth having ([[lesson losses_and_ops]]), but
# the dtype of your product doesn't change. With `cast_inputs`, in a region, it casts the inputs
# and switches autocast off inside. Outside a region it does nothing.
#
# ### 31. The speed-up is nearly free
#
# **True only when** the products are large. In the code, two lines are new. But with FP16, each step pays
# with casts and with a check of all gradients. It also reads a number back from the GPU, and Python
# waits for it. (With a fused optimizer it doesn't.) Beside large products that is cheap, beside small ones
# it isn't. And comparing the quality takes your time.

# %% tags=["question"]
predict("myths_and_clinic.operations_of_a_step")

# %%
alone = torch.amp.custom_fwd(device_type="cpu")
casting = torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
print("30 without a decorator:", proofs.product_dtype())
print("30 custom_fwd:", proofs.product_dtype(alone))
print("30 custom_fwd with cast_inputs:", proofs.product_dtype(casting))
prices = {
    "FP32": proofs.price(training.train_fp32),
    "FP16 with a scaler": proofs.price(training.train_fp16, torch.amp.GradScaler("cpu")),
}
for name, found in prices.items():
    print(f"31 {name}: {found.lines} lines in the loop, {found.operations} operations, ", end="")
    print(f"reads from the device: {found.reads}")
for rows in (1, 4096, 65536):
    share = proofs.share_of_the_cast("V100", rows)
    print(f"31 V100, rows in the product: {rows:,}, time for the weight's cast: {share:.0%}")

# %% [markdown]
# Of the 28 new operations, 15 are casts and 13 belong to the scaler.
#
# ## Page four: a benchmark
#
# A notebook runs [PyTorch's recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html)
# with a batch of 4,096, and prints times and peaks of memory. We have its figures, not its GPU.
#
# ### 32. Call reset_max_memory_allocated before you measure
#
# **True only when** you mean that it works. To begin with a fresh maximum is right, but the name is out
# of date. It only calls `torch.cuda.reset_peak_memory_stats()`, and warns that this resets all peaks.
# Call that one.
#
# ### 33. The benchmark shows that AMP reduces memory
#
# **False.** Its own peak is *higher* with AMP, by the FP16 copies of all weights, to within 1 KiB. And
# 89% of the FP32 peak are inputs and targets, which the notebook keeps on the GPU and autocast doesn't
# shrink. Optional: [[deep memory]] takes both peaks apart.
#
# ### 34. The benchmark shows what AMP gains
#
# **False** as evidence. It reports 7.738 s in FP32 and 3.325 s with AMP: one run each, FP32 first,
# without a warm-up and without the name of the GPU. Those figures fit several GPUs. The quotient, 2.33,
# may be right, but nobody can tell.
#
# Times and peaks rule out some GPUs. A part of the peak is *workspaces*: scratch memory for cuBLAS,
# NVIDIA's library of matrix products. PyTorch makes each about 8 MiB large, and on Hopper
# [32 MiB](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/cuda/CublasHandlePool.cpp). (On
# Blackwell too [since February 2026](https://github.com/pytorch/pytorch/pull/175344), but these runs are
# of July 2025.)

# %% tags=["question"]
predict("myths_and_clinic.equal_programs_compared")

# %%
print("32", proofs.reset_max_says())
plain, mixed = proofs.quoted().rows
copies = 3 * (4096 * 4096 + 4096) * 2  # three layers: weights and biases in FP16
print(f"33 peak: {plain.peak_bytes:,} bytes in FP32, {mixed.peak_bytes:,} with AMP")
print(f"33 growth: {mixed.peak_bytes - plain.peak_bytes:,} bytes; FP16 copies: {copies:,}")
once, warmed_up = proofs.equal_programs()
print(f"34 equal programs: {once:.2f} by its method, {warmed_up:.2f} warmed up and in turns")
for gpu in ("T4", "V100", "A100"):
    least = proofs.seconds_at_least(gpu)
    print(f"34 {gpu}: the FP32 run takes at least {least:.1f} s without TF32")
for size in (proofs.WORKSPACE, proofs.HOPPER_WORKSPACE):
    parts = plain.peak_bytes - proofs.left_of_the_peak(size)
    print(f"34 known parts of the peak, with workspaces of {size:,}: {parts:,} bytes")
print("34 left of the GPUs in lesson 10's table:", ", ".join(proofs.candidates()))

# %% [markdown]
# The benchmark's method finds a gain of 1.63 between two equal programs, because the first one
# starts cold.
#
# The FP32 run took 7.7 s, so it wasn't a T4 or a V100, and an A100 only with TF32. With Hopper's
# workspaces, the known parts of the peak add up to more than the peak. So if this sum is right, it
# wasn't an H100 or an H200. The sum includes the network of the FP32 run, which was still in
# memory: the name `loss` pointed to its loss ([[deep memory]]).
#
# ### 35. With a device variable the script runs anywhere
#
# **True only when** every line uses it. The script sets `device`, and then writes `.cuda()` and
# `GradScaler("cuda")`. Without a GPU `.cuda()` stops with an error. The scaler only warns, and then does
# nothing. If you fix only the `.cuda()` lines, you train in FP16 on the CPU, without loss scaling.
#
# ### 36. set_to_none makes zero_grad faster
#
# **True only when** you compare it with `set_to_none=False`, which writes zeros into each gradient. A
# comment in the benchmark praises `set_to_none=True`. It has been the default since PyTorch 2.0, so
# naming it changes nothing. (We count operations. Nothing is timed.)

# %%
for device in ("cuda", "cpu"):
    scaled = proofs.scale_without_cuda(device)
    print(f"35 no GPU, GradScaler({device!r}): a loss of 1 is scaled to {scaled:,.0f}")
print("36 zero_grad(), operations:", proofs.zero_grad_operations())
for choice in (True, False):
    number = proofs.zero_grad_operations(set_to_none=choice)
    print(f"36 zero_grad(set_to_none={choice}), operations: {number}")

# %% [markdown]
# ## Five sentences that hold
#
# A test that finds fault with everything is worth nothing. So here are five more sentences of the
# same pages, tried in the same way. All five hold.
#
# - **A.** Under autocast, the FP32 input of a linear layer needs no cast by hand.
# - **B.** Under autocast, `mse_loss` returns FP32, on a CPU and on CUDA.
# - **C.** If `backward()` is called outside the region, it runs in the dtypes of the forward pass.
# - **D.** After an inf in a gradient, `scaler.step` skips the step.
# - **E.** Small gradients need no scaler in BF16.

# %%
with fp16():
    output = layer(x)
    loss = F.mse_loss(output, y)
ran = proofs.operations(loss.backward)
print("A input", x.dtype, "and weight", layer.weight.dtype, "give", output.dtype)
print("B on a CPU", loss.dtype, "and on CUDA", op_policy("mse_loss", "cuda").low)
print("C the layer's product in the backward pass takes", *{d for name, d in ran if name == "mm"})
print(f"D the weight of 3, after an inf gradient: {proofs.weight_after(overflow=True)}")
print(f"E the largest gradient: {proofs.largest_gradient(2.0**-30, torch.bfloat16):.1g}")

# %% [markdown]
# ## Try a claim of your own
#
# All these proofs have three steps. Say what you would see if the claim were true. Find a case where it
# should hold, and one where it may break. Then print a number or a dtype for both.
#
# Here is the claim "Autocast runs `layer_norm` in FP32". Run it, and put another op in its place: `gelu`,
# `cumsum`, `matmul`. Then try a claim that you have heard yourself. `raised` finds errors, `proofs.casts`
# counts casts, and `.dtype` and `torch.equal` compare results.

# %%
op = "layer_norm"
for device in ("cuda", "cpu"):
    print(f"{op} on {device}: for an FP16 input, autocast returns", op_policy(op, device).low)

# %% [markdown]
# ## Recap
#
# 1. A claim about AMP belongs to an op, a device, a version and a baseline. Ask for them.
# 2. "FP32", "faster" and "smaller" are true of some ops, some sizes and some parts of the memory.
# 3. The dtype of a result shows what an op returns. To see what autocast does, count casts; to see how
#    a kernel computes, compare numbers.
# 4. A limit can cast doubt on a promised speed-up. Only a measurement confirms one.
# 5. Some mistakes raise no error: a loss that wasn't scaled in a later step, a CUDA scaler on a machine
#    without CUDA, a `backward()` inside the region.
#
# ## Three questions

# %% tags=["question"]
ask(
    "myths_and_clinic.when_is_the_loss_fp32",
    "myths_and_clinic.where_a_scaler_helps",
    "myths_and_clinic.softmax_on_a_laptop",
)

# %% [markdown]
# **Next:** [[lesson clinic]], with faults to find by their message or symptom, and
# [[exercises clinic|broken programs]] to fix. Or defend what you know in
# [[lesson interview_room]].
