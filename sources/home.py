# %% [markdown]
# # AMP Lessons
#
# Mixed precision training in PyTorch, from a first working loop to every detail behind it. You run
# real experiments on your own computer; what only a GPU can show is marked.

# %% tags=["drawn", "start"] jupyter={"source_hidden": true}
from amp_lessons.app import home

home.show()

# %% [markdown]
# ## Drag the loss scale and see training come back to life
#
# FP16 loses small gradients. This network learns nothing, until you multiply its loss by a number
# that is large enough: the loss scale.

# %% tags=["drawn", "lab"] jupyter={"source_hidden": true}
from amp_lessons.lessons.widgets import LossScaleLab

LossScaleLab(predict=False)

# %% tags=["drawn", "lessons"] jupyter={"source_hidden": true}
from amp_lessons.app import home

home.show_lessons()

# %% [markdown]
# ## Look up an error
#
# Did your own training stop with an error, or does its loss look wrong? Paste the message or the
# whole traceback, or say what you see. You get the cause and the cure, and for some errors the
# popular cure that doesn't work. In a terminal, `amp-lessons lookup` does the same.

# %% tags=["live"] jupyter={"source_hidden": true}
from amp_lessons.lessons.widgets import ErrorLookup

ErrorLookup()

# %% [markdown]
# ## How it works
#
# - **Lessons** are notebooks: run them from top to bottom with Shift+Enter. A box headed Predict asks
#   what the next cell will show.
# - **Exercises** have a sheet for most lessons. `ex.NAME.check(...)` names your mistake where it can,
#   `ex.NAME.hint()` helps a little at a time, and `ex.NAME.solution()` opens after a pass, or with
#   `give_up=True`.
# - **Questions** end each lesson. [[Lesson interview_room]] has hundreds more, a daily drill and a
#   mock interview.
# - **Your files are yours.** An upgrade never overwrites what you changed, and your progress is kept
#   outside the notebooks. In a terminal, `amp-lessons progress` shows it, `amp-lessons path` changes
#   your path, and `amp-lessons reset NAME` gives you a fresh copy of an exercise.
#
# Below: [[numbers]] and [[glossary]].

# %% [markdown]
# ## The page of numbers
#
# These are the numbers that come up again and again. [[Lesson number_formats]] explains the first
# table, [[lesson memory]] and [[lesson speed]] the rest.
#
# | format | bits: sign, exponent, fraction | largest | smallest normal | smallest subnormal | gap above 1 | whole numbers exact up to |
# |---|---|---:|---:|---:|---:|---:|
# | FP32 | 1, 8, 23 | 3.4e38 | 1.2e-38 | 1.4e-45 | 1.2e-07 | 16777216 |
# | TF32 (stored in 32 bits) | 1, 8, 10 | 3.4e38 | 1.2e-38 | – | 0.00098 | 2048 |
# | FP16 | 1, 5, 10 | 65504 | 6.1e-05 | 6.0e-08 | 0.00098 | 2048 |
# | BF16 | 1, 8, 7 | 3.4e38 | 1.2e-38 | 9.2e-41 | 0.0078 | 256 |
# | FP8 E4M3 | 1, 4, 3 | 448 | 0.016 | 0.0020 | 0.125 | 16 |
# | FP8 E5M2 | 1, 5, 2 | 57344 | 6.1e-05 | 1.5e-05 | 0.25 | 8 |
#
# - **FP16 at its ends.** Values below 2.98e-8 become 0, and values from 65,520 become inf. 256² is
#   inf, and so is `exp(x)` from x = 11.1.
# - **Lost updates.** A weight doesn't change when the update is below half the gap to the next
#   number. Where a weight lies between two powers of two decides how much that is: 1/4096 to 1/2048
#   of the weight in FP16, 1/512 to 1/256 in BF16.
# - **GradScaler's defaults.** The scale starts at 65,536. It doubles after 2,000 steps in a row
#   without inf or NaN, and halves when there is one. Seventeen skipped steps in a row bring it below
#   1: then look for NaN in the forward pass, or for a
#   loss that is far too large.
# - **Bytes per parameter** with Adam and `torch.amp`: 4 for the weight, 4 for its gradient, 8 for
#   Adam's two averages. That makes 16, and 2 more while the 16-bit copy is alive. A model of 7
#   billion parameters needs 112 GB from its first step on, plus activations.
# - **Work.** Multiplying an m × k by a k × n matrix takes 2·m·n·k floating point operations. A
#   training step takes about three times the operations of its forward pass.
#
# [[the table of GPUs]]
#
# These are the peaks of NVIDIA's and AMD's data sheets and white papers: TFLOP/s for dense matrices with
# sums in FP32, and memory bandwidth in GB/s. A dash means that the tensor cores don't have the format. No training step reaches such a
# peak, so the ratio of two peaks isn't the gain that you will see. [[Lesson speed]] has both.

# %% [markdown]
# ## Glossary
#
# ### activation
# A value that a layer computes in the forward pass. Many activations are kept until the backward
# pass needs them, so they often take more memory than the weights.
#
# ### activation checkpointing
# Keeping only some activations and computing the others again in the backward pass. It trades time
# for memory, and it has to use the same autocast settings both times.
#
# ### all-reduce
# Adding up (or averaging) a tensor over all ranks, so that each of them has the result.
#
# ### amax
# The largest magnitude of a tensor, a row or a block. FP8 multiplies by the format's largest number divided
# by amax before it rounds.
#
# ### AMP
# Automatic mixed precision: `torch.autocast`, and with FP16 also `torch.amp.GradScaler`.
#
# ### arithmetic intensity
# FLOPs per byte that is moved. Below a GPU's ridge, its peak divided by its memory bandwidth, work
# waits for the memory.
#
# ### autocast region
# The code inside `with torch.autocast(...)`, also called the autocast context. There PyTorch
# chooses a dtype for each operation. The backward pass belongs outside.
#
# ### BF16
# `torch.bfloat16`: 16 bits with FP32's exponent, so with nearly FP32's range, and with 8
# significant bits.
#
# ### cast
# The conversion of a tensor to another dtype. Autocast inserts casts. In eager mode each one
# costs a kernel launch, and memory for the copy.
#
# ### cast cache
# In eager mode, autocast keeps the 16-bit copy of a trainable FP32 parameter until the outermost region
# ends, so that a weight used twice is cast once.
#
# ### DDP
# `DistributedDataParallel`: each rank has the whole model and its own part of the batch, and the
# gradients are averaged by an all-reduce.
#
# ### delayed scaling
# FP8 with a scale from the amax of earlier steps, so that a tensor is read once. With current scaling, the
# scale comes from the tensor itself.
#
# ### dispatcher
# The part of PyTorch that decides which implementation an operation runs. Autocast is one of its
# layers.
#
# ### dynamic range
# The ratio of the largest to the smallest positive number of a format. More exponent bits give more
# range.
#
# ### eager mode
# PyTorch's usual mode: each operation runs when Python reaches it. The alternative is
# `torch.compile`.
#
# ### exponent
# The bits of a floating point number that say which power of two it is scaled by.
#
# ### fake tensor
# A tensor with a shape, a dtype and a device, but no data. This course uses fake tensors to look up
# CUDA's autocast rules on a computer without a GPU.
#
# ### flush-to-zero
# A mode of a processor that replaces subnormal numbers by zero, because some processors are slow with
# them. For those numbers it is an underflow.
#
# ### FP16
# `torch.float16`, also called half: 16 bits, 5 of them for the exponent, 11 significant bits.
#
# ### FP32
# `torch.float32`, PyTorch's default: 32 bits, 8 of them for the exponent, 24 significant bits.
#
# ### FP8
# Number formats of 8 bits. E4M3 has 4 exponent and 3 fraction bits and keeps more digits. E5M2 has 5
# and 2 and reaches further. In practice each tensor, or each row or block of one,
# gets a scale of its own.
#
# ### FSDP
# Fully sharded data parallel: each rank stores a part of the parameters, the gradients and the
# optimizer's state, and gathers a layer's weights when it runs that layer.
#
# ### fused
# Several operations in one kernel, so that what lies between them isn't written to memory. A fused
# optimizer updates many parameters in one kernel.
#
# ### gradient accumulation
# Adding up the gradients of several small batches before one optimizer step, to train as with one
# large batch.
#
# ### gradient clipping
# Scaling all gradients down when their norm exceeds a limit. With a GradScaler it comes after
# `unscale_`.
#
# ### GradScaler
# `torch.amp.GradScaler` does loss scaling. It also looks for inf and NaN in the gradients, skips the
# update if it finds any, and adjusts the scale.
#
# ### growth interval
# The number of steps in a row without inf or NaN after which GradScaler doubles the scale: 2,000 by
# default.
#
# ### headroom
# The room between the largest value in a tensor and the largest number of its format, as a factor or
# in powers of two.
#
# ### inf
# Infinity, the result of an overflow. inf − inf and 0 · inf are NaN.
#
# ### kernel
# A function that computes one operation on the device, such as a matrix product.
#
# ### launch
# Starting a kernel on the GPU. It costs the CPU a few microseconds ([[lesson speed]]), so many tiny
# kernels leave the GPU waiting.
#
# ### logits
# The scores that a classifier computes before softmax or sigmoid.
#
# ### loss scale
# The factor that GradScaler multiplies the loss by: a power of two, unless you choose another number.
#
# ### loss scaling
# Multiplying the loss, and so every gradient, by a factor, and dividing the gradients in FP32
# before the update. It keeps small gradients from underflowing in FP16.
#
# ### mantissa
# The stored bits of the significand, without the hidden leading 1: 10 in FP16, 7 in BF16, 23 in FP32.
# Also called the fraction.
#
# ### master weights
# FP32 copies of 16-bit weights, which the optimizer updates. With `torch.amp` there are none: the
# parameters themselves are FP32, and the 16-bit copies are temporary.
#
# ### micro-batch
# One of the small batches whose gradients are accumulated for one optimizer step.
#
# ### mixed precision
# Using more than one dtype in one training step: 16 bits where it's fast and harmless, FP32 where
# it's needed.
#
# ### MX formats
# Block-scaled formats of an open standard: 32 numbers of 8, 6 or 4 bits share a scale in E8M0, which is a
# power of two. MXFP8 has elements in E4M3 or E5M2, and MXFP4 in E2M1.
#
# ### NaN
# "Not a number": the result of inf − inf, 0 · inf, 0/0 and the like. Every sum or product with a
# NaN is NaN.
#
# ### norm
# The length of a vector: the root of the sum of squares. Gradient clipping uses one norm over all
# gradients.
#
# ### normal number
# A floating point number that has all the significant bits of its format. Very small numbers have
# fewer; they are called subnormal.
#
# ### NVFP4
# NVIDIA's block-scaled format of four bits: 16 numbers in E2M1 share a scale in E4M3, and the tensor has
# a second scale in FP32.
#
# ### op
# An operation that PyTorch runs on tensors, such as `linear`, `exp` or `sum`. Autocast decides about
# each op by its name.
#
# ### optimizer state
# What an optimizer remembers of each parameter between steps: the momentum in SGD, two averages in
# Adam.
#
# ### overflow
# A result too large for the format. In FP16 and BF16 it becomes inf.
#
# ### pure FP16
# Training with parameters that are FP16 themselves, as after `model.half()`. GradScaler refuses their
# gradients. With a fused optimizer `scaler.step` takes them, and `unscale_` still raises.
#
# ### random Hadamard transform
# Mixes the numbers of a block, with random signs, so that none of them is much larger than the others. It
# keeps a product the same if both of its matrices are mixed in the same way.
#
# ### rank
# One process of a training that runs in several.
#
# ### roofline
# A plot that shows how fast a computation can be at most, given the peak of the GPU and the
# bandwidth of its memory.
#
# ### rounding
# Storing the nearest number that the format has. A tie goes to the neighbour whose last bit is 0.
#
# ### running statistics
# The averages of mean and variance that batch normalisation collects in training and uses in
# evaluation. The forward pass updates them, so a skipped step updates them too.
#
# ### significand
# The digits of a floating point number, without its exponent. Their number is the format's count of
# significant bits: 11 in FP16, one of which isn't stored.
#
# ### skipped step
# A step at which GradScaler found inf or NaN in the gradients, so that no parameter was changed.
#
# ### stochastic rounding
# Rounding up or down at random, with a higher probability for the nearer number, so that the errors
# average out. Recipes for NVFP4 use it for gradients, and some recipes for BF16 weights without FP32
# master weights use it for weights. `torch.optim` doesn't offer it.
#
# ### subnormal
# A number below the smallest normal one. The smaller it is, the fewer significant bits it has.
#
# ### swamping
# A small number added to a large one and lost, because it's less than half the gap between the
# large one and its neighbour, or just half of it in a tie. In FP16, 2048 + 1 is 2048.
#
# ### tensor core
# A unit of a GPU that multiplies small matrices. Which formats it takes depends on the GPU. Its peak in
# 16 bits is about twice that of the ordinary units in FP32, or more, on the GPUs of [[numbers]].
#
# ### TF32
# FP32 rounded to 11 significant bits inside a matrix unit. Tensors in memory stay FP32.
#
# ### TFLOP/s
# 10¹² floating point operations per second.
#
# ### type promotion
# PyTorch's rule for an op that gets tensors of two dtypes. Of two floating point tensors with
# dimensions, it computes in a dtype that holds both: FP16 with FP32 gives FP32, and so does FP16 with
# BF16. An FP32 tensor without dimensions, or a Python number, leaves an FP16 tensor in FP16.
#
# ### ulp
# Unit in the last place: the gap between a number and the next one that the format has.
#
# ### underflow
# A result too small for the format. It becomes zero.
#
# ### unscale
# Dividing the gradients by the loss scale, in FP32. `scaler.step` does it unless you called
# `scaler.unscale_` first.
#
# ### warm-up
# Runs before the measured ones, so that a benchmark doesn't count compiling, allocating and
# choosing kernels.
#
# ### wide accumulation
# Adding up many 16-bit products in FP32, and rounding the sum once at the end.
