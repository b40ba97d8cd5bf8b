# %% [markdown]
# # Lesson 11, deeper: Compilers, ranks and FP8 at their edges
#
# This notebook is optional. It shows where the tools of [[lesson past_one_gpu]] surprise people who have
# used them for a while: when the compiler reads its setting, what the older checkpoint does, how
# averages in FP16 fail, and which numbers FP8 loses. Everything here runs on a CPU, in one process.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson past_one_gpu]].

# %%
import torch
from torch import nn
from torch._functorch import config as compiler_settings
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint

from amp_lessons import FP8_E4M3, FP8_E5M2, autoencoder, load_digits, plots, predict
from amp_lessons.amp.numbers import float8_matmul, in_float8, quantise, relative_error, scale_for
from amp_lessons.lessons.experiments import compiled, fp16_pass, one_of_ranks, raised, warned

pictures = load_digits().train_images[:600]

# %% [markdown]
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
        y = x @ torch.ones(4, 4)  # FP16 under autocast
        with torch.autocast("cpu", enabled=False):
            return self.last(y.float())


def last_gradient(model, call):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        output = call(torch.ones(1, 4))
    (output * 16384).sum().backward()
    return model.last.weight.grad[0, 0].item()


# %% [markdown]
# Somebody knows the setting, and sets it around the call of `torch.compile`. We compare that with
# eager mode, and with the setting around the whole training.

# %% tags=["question"]
predict("past_one_gpu.setting_around_compile")

# %%
model = Model()
print("eager:                         ", last_gradient(model, model))

with compiler_settings.patch(backward_pass_autocast="off"):
    early = compiled(model)
print('"off" around torch.compile:    ', last_gradient(model, early))

with compiler_settings.patch(backward_pass_autocast="off"):
    print('"off" around the training, too:', last_gradient(model, compiled(model)))

# %% [markdown]
# So set it at the top of the script. The other cure of the lesson doesn't depend on the moment: an
# autocast region inside the compiled function.
#
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
# shape, dtype and device. `Recompute` compares nothing. Here it is again, with the two decorators.


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
# ## A model that is sharded by half
#
# `one_of_ranks` pretends that this process is rank 0 of two: exchanges do nothing and wait for nobody.
# That is enough to see dtypes and errors.
#
# The next cell shows the dtypes of one training step under FSDP2, with the policy of the lesson. Then it tries
# a model of which only the first layer was given to `fully_shard`. One optimizer holds all its
# parameters, and a `GradScaler` makes the step.

# %%
from amp_lessons.amp.distributed import experiments

with one_of_ranks(2):
    for place, dtype in experiments.fsdp2_dtypes(torch.device("cpu")).items():
        print(f"{place:26} {dtype}")
    message = experiments.mixed_gradients(torch.device("cpu"))
print(message.split(", need")[0])

# %% [markdown]
# The last line is the start of the error message. The scaler gives all gradients to one operation,
# `_amp_foreach_non_finite_check_and_unscale_`. DTensor
# [adds an exchange to it](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_dispatch.py)
# (`found_inf_reduce_handler`), and refuses a mixture. Call `fully_shard` on the model itself too, last.
#
# The order also helps to keep a norm in FP32. Call `fully_shard` on the norm first, with a policy of its
# own: `MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.float16)`. Without its
# `output_dtype`, the norm hands on FP32. If the next layer has FP16 weights and no `fully_shard` of its
# own, that is an error.
#
# ## Averages in FP16
#
# Eight ranks have FP16 gradients, and average them in FP16. You can add first and divide by 8 at the
# end, or divide each gradient before you add it. We try gradients of 10,000, and gradients of 6e-8,
# FP16's smallest number.

# %%
for name, value in (("10,000", 10_000.0), ("6e-8", 2.0**-24)):
    total = mean = torch.zeros((), dtype=torch.float16)
    for gradient in torch.full((8,), value, dtype=torch.float16):
        total = total + gradient
        mean = mean + gradient / 8
    print(f"mean of eight gradients of {name}:", end="  ")
    print(f"divide last {(total / 8).item():.4g}, divide first {mean.item():.4g}")

# %% [markdown]
# Each order fails for one of them. So:
#
# - DDP's own averages are FP32 if the gradients are. Its
#   [`fp16_compress_hook`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py)
#   changes that. It casts to FP16 and then divides, so scaled gradients from 65,520 on become inf.
# - FSDP2 with an FP16 `reduce_dtype` divides by about the root of the number of ranks before the sum, and
#   by the rest after it: with 8 ranks by 4 and by 2, with 2 ranks by 2 before it
#   ([`_get_gradient_divide_factors`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)).
# - `nn.DataParallel`, the predecessor of DDP, has threads in place of ranks. In PyTorch 2.13 it hands
#   them autocast's on or off, without its dtype. Put the region inside `forward`; better, use DDP.
#
# ## What FP8 does at the end of its range
#
# A loss scale works because an overflow leaves an inf, which the scaler finds. Here are three numbers
# beyond the end of E4M3, 448. They are cast to both formats on a CPU.

# %% tags=["question"]
predict("past_one_gpu.past_448")

# %%
beyond = torch.tensor([1000.0, 1e6, torch.inf])
for format in (torch.float8_e4m3fn, torch.float8_e5m2):
    print(format, beyond.to(format).float().tolist())

# %% [markdown]
# So look for an overflow before the cast, or log the share of numbers that are cut off.
#
# ## E4M3 or E5M2 for gradients?
#
# Let's train the painter in FP8 with each of them, on the big pictures of the lesson.

# %%
our_pixels, big = pictures.numel(), 100_000_000
for format in (FP8_E5M2, FP8_E4M3):
    model = in_float8(autoencoder(), gradients=format)
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures, reduction="sum")
        (error / big).backward()
        optimizer.step()
    print(f"gradients in {format.name}: error per pixel {error.item() / our_pixels:.3f}")

# %% [markdown]
# This small network works with both. Don't take that for a rule: the gradients of large models can spread
# over a wider range.
#
# ## One outlier
#
# 64 rows of weights have a size of about 0.001. Now a single weight in the first row becomes 500. We
# multiply with FP8 weights, and look at the error of the *other* 63 rows of the product. Once, all
# weights share a scale, and once, each row has its own.

# %% tags=["question"]
predict("past_one_gpu.outlier_and_rows")

# %%
torch.manual_seed(0)
weights, inputs = torch.randn(64, 128) * 1e-3, torch.randn(128, 32)
weights[0, 0] = 500.0
exact = (weights.double() @ inputs.double())[1:]
scales = {
    "the tensor": scale_for(weights.abs().max()),
    "each row": scale_for(weights.abs().amax(dim=1, keepdim=True)),
}
for name, scale in scales.items():
    product = float8_matmul(weights, inputs, scale, scale_for(inputs.abs().max()))
    print(
        f"a scale for {name:10}: error of the other rows {relative_error(product[1:], exact):.0%}"
    )

# %% [markdown]
# NVFP4 goes on in this direction: 4-bit numbers with
# [a scale for each 16](https://intel.github.io/neural-compressor/latest/docs/source/3x/PT_NVFP4Quant.html),
# and one more for the tensor.
#
# ## A scale from the past
#
# Delayed scaling takes the largest number of the last tensors. 40 tensors come one after the other.
# Those from 20 to 24 are 50 times as large as the others. The memory is 8 tensors long. It is empty
# before the first tensor, which gets a scale of 1.

# %%
from amp_lessons.amp.numbers import DelayedScale

history = DelayedScale(length=8)
exponents = {"delayed": [], "dynamic": []}
errors = {"delayed": [], "dynamic": []}
for number in range(40):
    tensor = torch.randn(64, 64) * (50.0 if 20 <= number < 25 else 1.0)
    for name, scale in (
        ("delayed", history.next(tensor)),
        ("dynamic", scale_for(tensor.abs().max())),
    ):
        exponents[name].append(scale.log2().item())
        errors[name].append(relative_error(quantise(tensor, scale) / scale, tensor))
for name, values in errors.items():
    print(f"{name}: largest error {max(values[1:]):.0%}, in tensor {values.index(max(values[1:]))}")

# %%
plots.curves(
    exponents,
    title="Scales of 40 tensors",
    xlabel="tensor",
    ylabel="exponent of the scale",
    alt="The scales of 40 FP8 tensors, as exponents of two. Dynamic scaling falls by five to six at "
    "tensor 20 and rises again at 25. Delayed scaling begins at 0, falls one tensor later, at 21, "
    "and rises again only at 33.",
)

# %% [markdown]
# Tensor 20 is cut off, with a scale that knows only smaller ones. After tensor 24 the scale is too small
# for eight tensors, which costs nothing here, as the lesson's figure shows. torchao has dropped delayed scaling
# ([issue 1680](https://github.com/pytorch/ao/issues/1680)). Transformer Engine still has it.
#
# ## The product itself
#
# `torch.nn.functional.scaled_mm` is what libraries call: FP8 in, wide sums inside, and the scales divided
# out at the end (it takes their reciprocals). In PyTorch 2.13 it runs on a CPU too, for the numbers and
# not for the speed. On CUDA it needs a compute capability of 8.9 or more. Does the course's FP8 by hand
# agree with it?

# %%
from torch.nn.functional import ScalingType, scaled_mm

weights[0, 0] = 0.001
a, b = scale_for(weights.abs().max()), scale_for(inputs.abs().max())
left = (weights * a).to(torch.float8_e4m3fn)
right = (inputs * b).to(torch.float8_e4m3fn).t().contiguous().t()  # column by column in memory
whole = ScalingType.TensorWise
product = scaled_mm(left, right, 1 / a, whole, 1 / b, whole, output_dtype=torch.float32)
by_hand = float8_matmul(weights, inputs, a, b)
exact = weights.double() @ inputs.double()
print(f"error of scaled_mm {relative_error(product, exact):.3f}", end=", ")
print(f"of FP8 by hand {relative_error(by_hand, exact):.3f}")

# %% [markdown]
# Back to [[lesson past_one_gpu]], its [[exercises past_one_gpu]], or on to [[lesson myths]].
