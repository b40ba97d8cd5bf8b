# %% [markdown]
# # Lesson 11: Compile and checkpoint
#
# Your loop is right, and then it has to grow. You compile the model, to make it faster. It runs out of
# memory, so you run a part of it twice. Both can change the precision you chose, and no error message
# tells you.
#
# **You will be able to** compile a model under autocast and check its gradients, and recompute
# activations in the right dtype.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]] and [[lesson losses_and_ops]]; no GPU.

# %%
import torch
from torch import nn
from torch._functorch import config as compiler_settings
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.numbers import relative_error
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
predict("compile_and_checkpoint.compiled_painter")

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
# The underscore in `_functorch` marks a private part of PyTorch, so the setting may change. (A [pull
# request](https://github.com/pytorch/pytorch/pull/177287) of March 2026 proposed `"off"` as the
# default.) On CUDA, [issue 153044](https://github.com/pytorch/pytorch/issues/153044) reports the
# same fault.
#
# ## When does the compiler read its setting?
#
# This model comes from [issue 153044](https://github.com/pytorch/pytorch/issues/153044). Its last layer
# is kept in FP32 by a region, because its gradient doesn't fit into FP16: it is 4 · 16,384 = 65,536, and
# FP16 ends at 65,504.


# %%
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        y = x @ torch.ones(4, 4, device=device)  # FP16 under autocast
        with torch.autocast(device, enabled=False):
            return self.last(y.float())


def last_gradient(model, call):
    model.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        output = call(torch.ones(1, 4, device=device))
    (output * 16384).sum().backward()
    return model.last.weight.grad[0, 0].item()


# %% [markdown]
# Somebody knows the setting, and sets it around the call of `torch.compile`. We compare that with
# eager mode, and with the setting around the whole training.

# %% tags=["question"]
predict("compile_and_checkpoint.setting_around_compile")

# %%
model = Model().to(device)
print("eager:                         ", last_gradient(model, model))

with compiler_settings.patch(backward_pass_autocast="off"):
    early = compiled(model)
print('"off" around torch.compile:    ', last_gradient(model, early))

with compiler_settings.patch(backward_pass_autocast="off"):
    print('"off" around the training, too:', last_gradient(model, compiled(model)))

# %% [markdown]
# PyTorch reads the setting each time it compiles: at the first call of the model, and later if
# inputs of another shape make it compile again. `torch.compile(model)` itself compiles nothing yet. So
# set it at the top of the script. The other way out doesn't depend on the moment: an autocast region
# inside the compiled function.
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
predict("compile_and_checkpoint.second_run")

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
# `torch.amp.custom_bwd(device_type=…)`, which restores it. [[deep compile_and_checkpoint]] shows that the gradients
# are then equal.
#
# Without `use_reentrant=False`, `checkpoint` warns in PyTorch 2.13, and uses its older version.
# That one doesn't train a block if the block's input needs no gradient. (`Recompute` has the same
# limit.)
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | Gradients are zero or coarse, but only in the compiled model | The backward pass was recorded under autocast | `backward_pass_autocast = "off"`, or compile the function that switches autocast on |
# | The setting is `"off"`, and the compiled gradients are still wrong | It was changed back before the first call | Set it at the top of the script |
# | A recomputation by hand gives slightly different gradients | The second run has another dtype | `custom_fwd` and `custom_bwd` |
# | A checkpointed block isn't trained, with no error | The older `checkpoint`, and an input that needs no gradient | `use_reentrant=False` |
#
# ## Recap
#
# 1. In PyTorch 2.13, a compiled backward pass is recorded under the autocast of the forward call. Switch
#    that off, or compile the function that switches autocast on.
# 2. The setting counts when the model is first called, not when you call `torch.compile`. Set it at the
#    top of the script.
# 3. Compare the gradients of one batch with eager mode, once. No curve and no scaler shows a backward
#    pass that ran in BF16.
# 4. A checkpointed block runs twice, and the second run needs the autocast state of the first.
#    PyTorch's `checkpoint` restores it.
# 5. By hand, use `custom_fwd` and `custom_bwd`. Pass `use_reentrant=False` to `checkpoint`.
#
# ## Three questions

# %% tags=["question"]
ask(
    "compile_and_checkpoint.compiled_backward",
    "compile_and_checkpoint.checkpoint_under_autocast",
    "compile_and_checkpoint.reentrant_on_data",
)

# %% [markdown]
# **Next:** [[exercises compile_and_checkpoint|the exercises]]: compiled gradients that equal eager mode's,
# a comparison of two steps, a checkpointed block, and a choice of blocks. Then [[lesson ranks]] trains on several ranks. Optional:
# [[deep compile_and_checkpoint]], on a checkpoint whose two runs differ, and on the older checkpoint.
