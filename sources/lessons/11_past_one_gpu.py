# %% [markdown]
# # Lesson 11: Past one eager GPU
#
# Your loop is right, and then it has to grow. You compile the model. It runs out of memory, so you run a
# part of it twice. You add a second GPU. Each of these can change the precision you chose, and no error
# message tells you. And then somebody mentions FP8.
#
# **You will be able to** compile a model under autocast and check its gradients, and recompute
# activations in the right dtype. You'll train on several ranks whose scalers agree, and say what FP8
# training adds.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]] and [[lesson losses_and_ops]]; no GPU. One
# cell starts two processes.

# %%
import torch
from torch import nn
from torch._functorch import config as compiler_settings
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.numbers import errors_by_scale, in_float8, relative_error
from amp_lessons.lessons.experiments import compiled, fp16_pass

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels, big = pictures.numel(), 100_000_000

# %% [markdown]
# ## Compile a painter that should stay in FP32
#
# The network of [[lesson amp_in_20_minutes]] paints digits again: the painter. As there, it paints *big
# pictures*: we pretend that they have 100 million pixels, and divide the loss by that number. This makes
# the gradients too small for FP16. The learning rate makes up for it: with exact numbers, the updates
# would stay the same.
#
# This time the painter is a part of a larger training, which runs under FP16 autocast. So the
# painter's `forward` switches autocast off, so that everything inside it runs in FP32 and needs no
# loss scaling. `train` takes the painter, and the function that computes its error.
#
# Then we compile the painter. So far, the painter ran in [[term eager mode]]: PyTorch runs each operation as
# soon as Python reaches it. `torch.compile(model)` returns a model that you call in the same way. At the
# first call, it records which operations your model runs, forward and backward. From then on, it runs an
# optimized version of this recording in place of your Python code.
#
# `compiled`, from this course's package, calls `torch.compile` with `backend="aot_eager"`. This makes
# the recording and leaves out the optimizing, so you need no C++ compiler.


# %%
class FP32Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = autoencoder()  # always the same initial weights

    def forward(self, x):
        with torch.autocast(device, enabled=False):
            return self.layers(x)


def error_of(painter, dtype=torch.float16):
    """The larger training, which calls the painter under autocast."""
    with torch.autocast(device, dtype=dtype):
        return mse_loss(painter(pictures), pictures, reduction="sum")


# %%
def train(painter, error_of=error_of):
    optimizer = torch.optim.SGD(painter.parameters(), lr=big / our_pixels, momentum=0.9)
    errors = []
    for _ in range(150):
        optimizer.zero_grad()
        error = error_of(painter)
        (error / big).backward()  # outside autocast, as it should be
        optimizer.step()
        errors.append(error.item() / our_pixels)
    return errors


# %% tags=["question"]
predict("past_one_gpu.compiled_painter")

# %%
eager_painter = FP32Painter().to(device)
compiled_painter = compiled(FP32Painter().to(device))
fp32 = train(eager_painter)
plots.training(
    {"FP32": fp32, "compiled": train(compiled_painter)},
    title="The same painter in eager mode and compiled",
    ylabel="error per pixel",
)

# %% [markdown]
# The compiled painter ends far higher. Its backward pass was recorded during the first forward
# call, when FP16 autocast was on. So it runs in FP16, and every gradient but the last bias's
# becomes zero.
#
# There are two ways out, and either is enough:
#
# - **A setting.** `backward_pass_autocast` says under which autocast the backward pass is recorded. In
#   PyTorch 2.13, and still in 2.15, its default is `"same_as_forward"`. Set it to `"off"` once, at the
#   top of your script:
#   `torch._functorch.config.backward_pass_autocast = "off"`.
# - **A larger part.** Compile the function that opens the FP16 region: here `error_of`, which calls
#   the painter. Autocast is still off when that call begins, so the backward pass is recorded
#   without it.
#
# The next cell tries both. It changes the setting for one training only. Below, you see what two of the
# painters paint.

# %%
with compiler_settings.patch(backward_pass_autocast="off"):
    fixed_painter = compiled(FP32Painter().to(device))
    with_setting = train(fixed_painter)
    painted = fixed_painter(pictures)
larger_part = train(FP32Painter().to(device), compiled(error_of))

print(f'painter compiled, setting "off": error per pixel {with_setting[-1]:.3f}')
print(f"error_of compiled:               error per pixel {larger_part[-1]:.3f}")
print(f"eager:                           error per pixel {fp32[-1]:.3f}")
plots.paintings(
    {"original": pictures, "default": compiled_painter(pictures), 'setting "off"': painted}
)

# %% [markdown]
# Both ways reach eager mode's error. By default the painter only learns the average picture.
# PyTorch reads the setting each time it compiles: at the first call of the model, and later if
# inputs of another shape make it compile again. The underscore in `_functorch` marks a private part
# of PyTorch, so the setting may change. (A [pull
# request](https://github.com/pytorch/pytorch/pull/177287) of March 2026 proposed `"off"` as the
# default.) On CUDA, [issue 153044](https://github.com/pytorch/pytorch/issues/153044) reports the
# same fault.
#
# ## And under BF16 autocast?
#
# BF16 has almost the range of FP32, so it doesn't turn these gradients into zero. But the backward pass
# is still recorded under the autocast of the forward call. The next cell computes the gradients of one
# batch, with BF16 autocast around the FP32 painter: first in eager mode, then compiled. It prints how far
# apart they are: the norm of the difference, divided by the norm of the eager gradients.


# %%
def gradients(painter):
    (error_of(painter, dtype=torch.bfloat16) / big).backward()
    return torch.cat([parameter.grad.flatten() for parameter in painter.parameters()])


eager = gradients(FP32Painter().to(device))
default = gradients(compiled(FP32Painter().to(device)))
with compiler_settings.patch(backward_pass_autocast="off"):
    switched_off = gradients(compiled(FP32Painter().to(device)))
print(f"compiled, default setting: {relative_error(default, eager):.1%}")
print(f'compiled, setting "off":   {relative_error(switched_off, eager):.1%}')

# %% [markdown]
# A difference of 0.1% is small, and the painter learns nearly as well. But you asked for an FP32
# part, and its gradients have only BF16's 8 significant bits.
#
# No curve and no scaler shows that. So when you compile a model, compare the gradients of one batch
# with eager mode, once. For an FP32 part, the difference should be far below 0.1%.
#
# ## Out of memory: run the block twice
#
# With [[term activation checkpointing]], autograd keeps only the input of a *block*, a part of the model.
# When the backward pass needs the values inside the block, the block's forward pass runs again. But
# `backward()` stands outside autocast. In which dtype does that second run happen?
#
# There are two ways to do it. One is `torch.utils.checkpoint.checkpoint` with `use_reentrant=False`,
# its newer version. The other is to write it by hand, as people do in reversible layers or in attention
# that saves memory. `Recompute`, below, is such code.
#
# After it, we try three calls: the plain painter, `checkpoint`, and `Recompute`. The block is the whole
# painter. From here on, the painter is the bare `autoencoder()`, without the region that switches
# autocast off. `fp16_pass`, from this course's package, makes each call under FP16 autocast, and calls
# `backward()` outside. It notes the dtype that the first layer puts out, each time the layer runs.


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block, ctx.x = block, x
        return block(x)  # autograd is off here, so it keeps nothing from inside the block

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)  # the second run
        torch.autograd.backward(output, gradient)
        return None, x.grad


# %% tags=["question"]
predict("past_one_gpu.second_run")

# %%
from torch.utils.checkpoint import checkpoint

painter = autoencoder().to(device)
calls = {
    "plain": painter,
    "checkpoint": lambda x: checkpoint(painter, x, use_reentrant=False),
    "by hand": lambda x: Recompute.apply(painter, x),
}
found = {name: fp16_pass(painter, pictures, call) for name, call in calls.items()}
for name, one in found.items():
    difference = relative_error(one.gradients, found["plain"].gradients)
    print(f"{name:10}  first layer: {', '.join(one.dtypes)}; gradients differ by {difference:.2%}")
kept = [found[name].kept / 1024 for name in ("plain", "checkpoint")]
print("autograd keeps {:.0f} KiB, with checkpoint {:.0f} KiB".format(*kept))

# %% [markdown]
# `Recompute` runs the painter again in FP32, because `backward()` is called outside autocast.
# `checkpoint` restores the autocast of the first run. It keeps only the input, here 150 KiB,
# however many layers the block has.
#
# The fix for code like `Recompute` comes from [[lesson losses_and_ops]]. Decorate `forward` with
# `torch.amp.custom_fwd(device_type=…)`, which notes the state of autocast. Decorate `backward` with
# `torch.amp.custom_bwd(device_type=…)`, which restores it. [[deep past_one_gpu]] shows that the gradients
# are then equal.
#
# Without `use_reentrant=False`, `checkpoint` warns in PyTorch 2.13, and uses its older version.
# That one doesn't train a block if the block's input needs no gradient. (`Recompute` has the same
# limit.)
#
# ## A second GPU
#
# With several GPUs, each has a process of its own, called by its number: [[term rank]] 0, rank 1. The
# command `torchrun` starts these processes. A library carries tensors between them: NCCL between GPUs,
# gloo between CPUs. In an *all-reduce*, each rank brings a tensor, and each gets the sum of all. Divided
# by the number of ranks, this is the average.
#
# There are two ways to train one model on several ranks:
#
# - [[term DDP]] (`DistributedDataParallel`): each rank has the whole model, and its own part of the batch.
#   During `backward()`, all-reduces average the gradients.
# - [[term FSDP|FSDP2]] (`fully_shard`): each rank stores only a piece of every parameter, called a *shard*. Before
#   a block runs, each rank collects the other pieces of its parameters. After the backward
#   pass, each rank has the averaged gradient of its own shard.
#
# When the ranks average gradients, they send them to each other. We call this the *exchange*.
#
# We train the painter under DDP and under FSDP2, in FP16. Each rank has half of the 600 pictures,
# in `batch`. This is the loop that each rank runs under DDP:
#
# ```python
# model = DistributedDataParallel(autoencoder().to(device))
# optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
# scaler = torch.amp.GradScaler(device)
# for step in range(150):
#     optimizer.zero_grad()
#     with torch.autocast(device, dtype=torch.float16):
#         error = mse_loss(model(batch), batch)  # a mean; above, it was a sum
#     loss = error * our_pixels / big
#     scaler.scale(loss).backward()  # DDP averages the gradients in here
#     scaler.step(optimizer)
#     scaler.update()
# ```
#
# Nothing in the loop depends on the number of ranks. Each all-reduce waits until all ranks have
# joined it, so every rank must make the same calls. The next cell starts two ranks on this machine,
# on its GPUs if it has two. They run the experiments of the next sections, which takes some
# seconds. `show` prints the result of one experiment.

# %%
from amp_lessons.amp.distributed import launch

ranks = launch("amp_lessons.amp.distributed.experiments", ranks=2, timeout=100)


def show(name):
    for rank in ranks:
        records = rank.reports[name]["records"]
        skipped = [record["step"] for record in records if record["skipped"]]
        print(f"rank {rank.number}: skipped steps {skipped}", end=", ")
        print(f"scale {records[-1]['scale']:,.0f} at the end")
    if name.startswith("ddp"):  # under FSDP2, no weight is on two ranks
        print(f"a weight differs between the ranks by up to {ranks[0].reports[name]['apart']:.1g}")


# %% [markdown]
# ## One rank overflows
#
# In step 40, the loss of rank 1 is inf. The loss of rank 0 is fine. Each rank has an ordinary
# `GradScaler` of its own, and the two scalers exchange nothing. Does rank 0 skip the step too?

# %%
from amp_lessons.amp.scaling import ScalerRecord

show("ddp loss")
errors = [rank.reports["ddp loss"]["errors"] for rank in ranks]
plots.scaled_training(
    {"rank 0": errors[0], "rank 1": errors[1]},
    [ScalerRecord(**record) for record in ranks[0].reports["ddp loss"]["records"]],
    title="DDP, with an inf in the loss of rank 1 (below: the scale of rank 0)",
    ylabel="error per pixel",
)

# %% [markdown]
# It does. DDP averages the gradients during `backward()`, before any scaler looks at them. The average of
# inf or NaN and a finite number is inf or NaN. So both scalers see the same bad gradients, both skip the
# step and halve the scale, and the models stay equal.
#
# ## An inf after the exchange
#
# When `backward()` returns, DDP has done its work. A line of your own that changes gradients comes
# after that.

# %% tags=["question"]
predict("past_one_gpu.inf_after_the_exchange")

# %%
show("ddp gradient")
alone = [rank.reports["ddp gradient"]["errors"] for rank in ranks]
plots.training(
    {"rank 0": alone[0][40:], "rank 1": alone[1][40:], "inf in the loss": errors[0][40:]},
    title="DDP, with an inf on rank 1 after the exchange",
    xlabel="steps after step 40",
    ylabel="error per pixel",
)

# %% [markdown]
# Rank 1 skips step 40 and rank 0 makes it, so from there on they train different models, and both
# end higher than before. No message says so.
#
# DDP copies rank 0's parameters to the other ranks when it is built. It doesn't compare them later.
# The ranks also come apart if only rank 0 loads the scaler's state when you resume. So log two
# numbers from each rank now and then: its scale, and the sum of its weights.
#
# ## Each rank holds a part
#
# With FSDP2, the two ranks hold different gradients by design. The figure shows six gradients, `g`,
# after the exchange. One of them has overflowed in the backward pass. Under DDP, its average is inf on
# both ranks. Under FSDP2, it is inf on rank 1 alone, which holds this shard.
#
# In our experiment, rank 1 gets such an inf in step 40.

# %%
plots.where_the_inf_is(ranks=2, parameters=6, bad=4)

# %% tags=["question"]
predict("past_one_gpu.shard_with_an_inf")

# %%
show("fsdp2 gradient")

# %% [markdown]
# Rank 0 skips too. FSDP2 stores gradients as *DTensors*, tensors that know on which ranks their
# other parts are. When the scaler checks them, PyTorch takes the maximum of the result over all
# ranks. FSDP2's predecessor FSDP1 (`FullyShardedDataParallel`) has plain tensors as shards. There
# you use
# [`ShardedGradScaler`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/sharded_grad_scaler.py),
# a scaler that sends the result of its check to the other ranks. If code of your own splits a model
# among ranks, it must do the same. You write that in the [[exercises past_one_gpu|exercises]].
#
# ## What FSDP2 casts
#
# Under FSDP2, our loop opens no autocast region. FSDP2 gets a policy instead:
#
# ```python
# policy = MixedPrecisionPolicy(
#     param_dtype=torch.float16, reduce_dtype=torch.float32, output_dtype=torch.float32
# )
# fully_shard(model, mp_policy=policy)
# ```
#
# | in one training step | dtype under this policy |
# |---|---|
# | each rank's shards, between the steps | FP32: these are the [[term master weights]] |
# | the parameters that the ranks collect, for both passes | FP16, so half the bytes are sent |
# | the input of the model, and what its layers compute from it | FP16 |
# | the output of the model | FP32 (`output_dtype`) |
# | the gradients, when the ranks average them | FP32 (`reduce_dtype`) |
#
# You give modules to `fully_shard`. The policy casts at the entry and at the exit of each of these
# *modules*. It has no list of operations as autocast has, so a softmax or a norm inside runs in
# FP16 too. To keep a norm in FP32, give it a policy of its own ([[deep past_one_gpu]]).
#
# What if you leave out `reduce_dtype`?

# %% tags=["question"]
predict("past_one_gpu.mean_without_reduce_dtype")

# %%
for param_dtype, (first, second), low, full in ranks[0].reports["reduce"]:
    print(f"param_dtype {param_dtype}, gradients {first:.3g} and {second:.3g}:")
    print(f"    mean in {param_dtype} {low:.4g}, in float32 {full:.4g}")

# %% [markdown]
# BF16 has no 257, so the sum becomes 256 and the mean 128: rank 1's gradient is lost. That is what
# PyTorch 2.13 gives you if you leave out `reduce_dtype`. PyTorch 2.15 then follows each parameter's
# `grad_dtype`. Unless you set that, it is the parameter's own dtype, here FP32 ([its
# source](https://github.com/pytorch/pytorch/blob/v2.15.0/torch/distributed/fsdp/_fully_shard/_fsdp_api.py)).
# Write the dtype down, and both versions do the same.
#
# FP32 in this exchange costs twice the bytes of a 16-bit format. Start with FP32. DDP averages
# gradients in the dtype that they have, which is FP32 for FP32 parameters.
#
# ## Accumulate, and exchange once
#
# With [[term gradient accumulation]] over four micro-batches, DDP exchanges gradients four times for one
# step. Three of these exchanges are wasted. `model.no_sync()` is there to leave them out: the gradients
# then add up on each rank. (For a small model, one exchange is one all-reduce.) Suppose you write it
# like this, with `no_sync()` around the first three calls of `backward()`:
#
# ```python
# for number, batch in enumerate(micro_batches):
#     loss = mse_loss(model(batch), batch) / 4
#     with model.no_sync() if number < 3 else nullcontext():
#         loss.backward()
# ```
#
# The next cell counts the all-reduces of three loops: without `no_sync()`, with this one, and with one
# that opens the region before the forward pass.

# %%
loops = {
    "without no_sync()": "plain",
    "no_sync() around backward": "no_sync too late",
    "no_sync() around forward and backward": "no_sync",
}
print("all-reduces after each of four micro-batches:")
for words, name in loops.items():
    print(f"{words:38}", *ranks[0].reports["all-reduces"][name])

# %% [markdown]
# Your own loop makes all four exchanges. DDP decides in the *forward* pass whether the coming
# backward pass will exchange gradients, so `no_sync()` must surround both passes.
#
# In FSDP2, `model.set_requires_gradient_sync(False)` leaves the exchange out. For the scaler,
# nothing changes from [[lesson training_loops]]: one `step` and one `update`, after the last
# micro-batch. Only then has an inf of any micro-batch reached all ranks. If you step earlier, the
# ranks can skip different steps.
#
# To take home: `amp_lessons/amp/distributed/train.py` is a whole script with DDP, FSDP2,
# accumulation and a scaler. The same file runs on two CPU cores (the first command), and on two
# machines with 8 GPUs each. For that, start the second command on both machines. The `--rdzv`
# options are how the two find each other (`c10d` is PyTorch's own way); `HOST` is the name of one
# of them.
#
# ```
# torchrun --nproc-per-node 2 -m amp_lessons.amp.distributed.train --parallel ddp --precision fp16
# torchrun --nnodes 2 --nproc-per-node 8 --rdzv-id 11 --rdzv-backend c10d \
#     --rdzv-endpoint HOST:29500 -m amp_lessons.amp.distributed.train --parallel fsdp2
# ```
#
# ## Can the painter learn in FP8?
#
# The tensor cores of NVIDIA's Hopper GPUs multiply 8-bit numbers at
# [twice the peak rate of FP16](https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/).
# There are two formats of [[term FP8]]. E4M3 has 4 significant bits and reaches from 0.002 to 448.
# E5M2 has 3 and reaches from 0.000015 to 57,344. PyTorch 2.13 has no autocast to FP8; libraries
# replace the linear layers.
#
# `in_float8`, from this course's package, does that for the painter, with the arithmetic of FP8 and
# without its speed. It rounds both inputs of each matrix product to FP8: weights and activations to
# E4M3, gradients to E5M2. Sums and parameters stay in FP32.
#
# There is no GradScaler. With `scaled=True`, the default, each tensor has a scale of its own. Before
# rounding, the tensor is multiplied by its scale, so that its largest number lands on the largest number
# of the format. Afterwards, the product is divided by both scales.

# %% tags=["question"]
predict("past_one_gpu.painter_in_fp8")


# %%
def plain_error_of(painter):
    return mse_loss(painter(pictures), pictures, reduction="sum")


unscaled = train(in_float8(autoencoder().to(device), scaled=False), plain_error_of)
scaled = train(in_float8(autoencoder().to(device)), plain_error_of)
plots.training(
    {"FP32": fp32, "FP8, no scales": unscaled, "FP8 with scales": scaled},
    title="Big pictures: FP32, and FP8 without and with scales",
    ylabel="error per pixel",
)

# %% [markdown]
# With scales, FP8 ends close to FP32. Without them, small gradients become zero, and the painter
# learns the average picture.
#
# ## How exact must a scale be?
#
# *Dynamic* scaling takes the largest number of the tensor itself, which costs one more pass over it.
# *Delayed* scaling takes the largest number that the same tensor had in earlier steps, so it can be
# wrong. What does a wrong scale cost?
#
# The next cell multiplies the weights of the painter's first layer and the pictures, once with all
# tensors in E4M3 and once in E5M2. It tries scales for the weights, from 65,536 times too small to
# 256 times too large. Numbers beyond the end of a format become its largest number.

# %% tags=["question"]
predict("past_one_gpu.wrong_scale")

# %%
from amp_lessons import FP8_E4M3, FP8_E5M2

weights = eager_painter.layers[0].weight.detach()
exponents = range(-16, 9)
plots.error_by_scale(
    exponents,
    {f.name: errors_by_scale(weights, pictures.T, exponents, f) for f in (FP8_E4M3, FP8_E5M2)},
    title="The error of one product, by the scale of the weights",
)

# %% [markdown]
# A scale that is too small costs nothing over a wide range: FP8 has an exponent. One that is too
# large cuts off the largest weights at once.
#
# Recipes differ in two choices: the format of the gradients, and how many numbers share a scale.
#
# | recipe | format of the gradients | one scale for |
# |---|---|---|
# | the [paper](https://arxiv.org/abs/2209.05433) that proposed both formats | E5M2 | a tensor |
# | torchao, [row-wise](https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html) | E4M3 | a row |
# | Transformer Engine, [MXFP8](https://docs.nvidia.com/deeplearning/transformer-engine-releases/release-2.18/user-guide/features/low_precision_training/mxfp8/mxfp8.html) | E4M3 by default | 32 numbers |
#
# If fewer numbers share a scale, their sizes differ less, and the format needs less range. A single
# number that is far too large, an *outlier*, then harms only its own row or block
# ([[deep past_one_gpu]]).
#
# You don't write any of this yourself.
# [torchao](https://docs.pytorch.org/ao/stable/workflows/training.html) replaces linear layers with
# `convert_to_float8_training(model)`. It is meant for use with `torch.compile`, and works with
# FSDP2. NVIDIA's [Transformer
# Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html) has FP8
# layers of its own.
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | Gradients are zero or coarse, but only in the compiled model | The backward pass was recorded under autocast | `backward_pass_autocast = "off"`, or compile the function that switches autocast on |
# | A recomputation by hand gives slightly different gradients | The second run has another dtype | `custom_fwd` and `custom_bwd` |
# | The scales or the weights of two ranks differ | The scalers saw different gradients | Find what changes gradients after the exchange, or what only one rank loads |
# | A rank hangs | It waits for an exchange that another rank never starts | Don't put `backward()` behind an `if` that can differ between ranks |
# | Accumulation is as slow as without `no_sync()` | The forward pass is outside of it | Put forward and backward inside |
#
# ## Recap
#
# 1. In PyTorch 2.13, a compiled backward pass is recorded under the autocast of the forward call. Switch
#    that off, or compile the function that switches autocast on. Compare one batch with eager mode.
# 2. A recomputation needs the autocast state of the first run. PyTorch's `checkpoint` restores it. By
#    hand, use `custom_fwd` and `custom_bwd`.
# 3. DDP's scalers agree because they see equal gradients. If one rank's gradients change after the
#    exchange, the ranks can train different models, without an error.
# 4. FSDP2 shares the check for inf. Its policy casts modules, not operations. Set `reduce_dtype` to FP32.
# 5. FP8 training has a scale for each tensor, row or block in place of one loss scale. A scale that is
#    too small costs little, within a wide range. One that is too large cuts off the largest numbers.
#
# ## Three questions

# %% tags=["question"]
ask(
    "past_one_gpu.compiled_backward",
    "past_one_gpu.why_all_ranks_skip",
    "past_one_gpu.scale_for_e4m3",
)

# %% [markdown]
# **Next:** [[exercises past_one_gpu|the exercises]]: compiled equals eager, a checkpointed block, ranks
# that agree, a policy for FSDP2, an accumulation with few exchanges, and a tensor in FP8. None of them
# starts a second process. Then [[lesson myths]] tests claims about AMP. Optional:
# [[deep past_one_gpu]], on when the setting is read, the older checkpoint, a norm in FP32 under FSDP2,
# averages in FP16, and outliers in FP8.
