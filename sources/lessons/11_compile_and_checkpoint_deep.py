# %% [markdown]
# # Lesson 11, deeper: Checkpoints at their edges
#
# This notebook is optional. It shows what `checkpoint` compares between its two runs, how a
# recomputation by hand gets the right dtype, and what the older checkpoint does. Everything here runs
# on a CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson compile_and_checkpoint]].

# %%
import torch
from torch.utils.checkpoint import checkpoint

from amp_lessons import autoencoder, load_digits
from amp_lessons.amp.numbers import relative_error
from amp_lessons.lessons.experiments import fp16_pass, raised, warned

pictures = load_digits().train_images[:600]

# %% [markdown]
# ## A checkpoint whose second run differs
#
# `checkpoint` takes a `context_fn`, which gives one context for each of the two runs. Here the second
# context switches autocast off.

# %%
painter = autoencoder()


def two_contexts():
    return torch.autocast("cpu", dtype=torch.float16), torch.autocast("cpu", enabled=False)


def call(x):
    return checkpoint(painter, x, use_reentrant=False, context_fn=two_contexts)


try:
    fp16_pass(painter, pictures, call)
except torch.utils.checkpoint.CheckpointError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# With `use_reentrant=False`, `checkpoint` compares the tensors that autograd keeps in the two runs, by
# shape, dtype and device. The lesson's `Recompute` compares nothing. Here it is again, with the two
# decorators.


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, block, x):
        ctx.block, ctx.x = block, x
        return block(x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


# %%
plain = fp16_pass(painter, pictures)
recomputed = fp16_pass(painter, pictures, lambda x: Recompute.apply(painter, x))
print("first layer:", ", ".join(recomputed.dtypes))
print(f"gradients differ by {relative_error(recomputed.gradients, plain.gradients):.2%}")

# %% [markdown]
# ## The older checkpoint
#
# `use_reentrant=True` is the older version, and PyTorch 2.13 takes it if you don't say which. It hides
# the block inside an autograd Function, whose only tensor input is `x`. What does it do with `pictures`,
# which need no gradient?

# %%
outputs = []
print("warning:", warned(lambda: outputs.append(checkpoint(painter, pictures, use_reentrant=True))))
print("backward:", raised(lambda: outputs[0].sum().backward()))

# %% [markdown]
# If this block stands first in a larger model, there is no error either: the layers after it train,
# and its own parameters get no gradient.
#
# Back to [[lesson compile_and_checkpoint]], its [[exercises compile_and_checkpoint]], or on to
# [[lesson ranks]].
