# %% [markdown]
# # Lesson 04: What autocast does to each op
#
# Autocast looks at each operation, or *op* for short: each matrix product, each addition, each tanh.
# It casts the inputs of some, and leaves the others alone. You'll train a network with a layer that a
# colleague wrote, and follow the dtypes through it line by line. Then you'll look up what autocast does
# on a GPU that you may not have.
#
# **You will be able to** say which dtype an op gives under autocast, on a CPU and on CUDA, or look it up.
# And you'll be able to fix the places where two dtypes don't fit together.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson amp_in_20_minutes]]; [[lesson amp_from_scratch]] helps. No
# GPU, not even for CUDA's rules.

# %%
import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.lessons.experiments import raised_by

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
xrays = 4095 * pictures

# %% [markdown]
# ## A norm written by hand
#
# The network of [[lesson amp_in_20_minutes]] paints digits again. This time we pretend that its input
# comes from an X-ray detector, whose grey values go from 0 to 4,095. So the first layer puts out numbers
# in the thousands. The `tanh` behind it can't tell these apart: it gives about 1 for 10 and for 1,000.
# A colleague therefore puts a normalization layer, or *norm*, between the two. It divides the 64
# outputs of the first layer by their root mean square. The targets still have values from 0 to 1.
#
# `train` below is a loop as you know it. `mixed` switches autocast and the `GradScaler` on or off.


# %%
class Norm(nn.Module):
    def forward(self, h):
        mean_square = (h * h).mean(dim=1, keepdim=True)
        return h * (mean_square + 1e-6).rsqrt()  # rsqrt(x) is 1 / sqrt(x)


def painter(norm):
    first, *others = autoencoder()  # always the same initial weights
    return nn.Sequential(first, norm, *others).to(device)


# %%
def train(norm, mixed=True):
    model, scaler = painter(norm), torch.amp.GradScaler(device, enabled=mixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    errors = []
    for _ in range(150):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16, enabled=mixed):
            error = mse_loss(model(xrays), pictures)
        scaler.scale(error).backward()
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item())
    return model, errors, scaler.get_scale()


# %% tags=["question"]
predict("autocast_ops.norm_by_hand")

# %%
fp32_model, fp32, _ = train(Norm(), mixed=False)
mixed_model, mixed, scale = train(Norm())
print(f"loss scale: 65,536 at the start, {scale:,.0f} at the end")
plots.training(
    {"FP32": fp32, "mixed precision": mixed},
    title="A painter with a norm written by hand",
    ylabel="error per pixel",
)

# %% [markdown]
# In mixed precision the error falls at first and then stays high, although no step was skipped.

# %%
with torch.autocast(device, dtype=torch.float16):
    painted = mixed_model(xrays)
plots.paintings({"original": pictures, "FP32": fp32_model(xrays), "mixed precision": painted})

# %% [markdown]
# In mixed precision, all ten paintings are the same.
#
# ## Look inside the norm
#
# Here are the steps of `Norm`, one after the other, on a CPU and with the initial weights. The last
# column is the largest absolute value of each result.

# %%
first_layer = autoencoder()[0]
with torch.autocast("cpu", dtype=torch.float16):
    h = first_layer(xrays.cpu())
    squares = h * h
    mean_square = squares.mean(dim=1, keepdim=True)
    factor = (mean_square + 1e-6).rsqrt()
    normed = h * factor
steps = {"h": h, "h * h": squares, "mean": mean_square, "rsqrt": factor, "h * rsqrt": normed}
for name, result in steps.items():
    print(f"{name:10} {result.dtype}  {result.abs().max():.3g}")

# %% [markdown]
# The largest number in FP16 is 65,504, and the square of 3,810 is 14 million. It becomes inf. So the
# mean is inf, 1 divided by its root is 0, and the norm puts out zeros. The layers behind it can't tell
# one picture from another, and paint the same average for every digit. A zero is an ordinary number, so the
# loss and the gradients are finite, and the scaler finds nothing wrong.
#
# ## Which ops does autocast change?
#
# The X-rays are FP32, and so is the layer's weight. Yet `h` is FP16: in an
# [[term autocast region|autocast region]], PyTorch casts what goes into a linear layer. Does it
# cast what goes into every op? If we write `xrays / 4095` in our region, the result is FP32. And on
# a CPU, each `tanh` of the painter is given FP16 and gives FP16.

# %% tags=["question"]
predict("autocast_ops.tanh_of_pictures")

# %%
x, weight = pictures.cpu(), torch.randn(64, 64)
with torch.autocast("cpu", dtype=torch.float16):
    h = x @ weight
    print("x @ weight            ", h.dtype)
    print("tanh(h)               ", torch.tanh(h).dtype)
    print("tanh(x)               ", torch.tanh(x).dtype)
    print("h + x                 ", (h + x).dtype)
    print("h.bfloat16() @ weight ", (h.bfloat16() @ weight).dtype)
    print("h.bfloat16() + h      ", (h.bfloat16() + h).dtype)
    print("mse_loss(h, h)        ", mse_loss(h, h).dtype)
    print("(h * h).mean()        ", (h * h).mean().dtype)
print("weight                ", weight.dtype)

# %% [markdown]
# `tanh` leaves its input as it is: FP16 stays FP16, and FP32 stays FP32. You often read that
# autocast runs the model in FP16. It doesn't. It has lists of ops, and looks up each op when you
# call it. On a CPU, in PyTorch 2.13:
#
# - **`@`, `bmm`, linear layers, convolutions and attention** get their inputs cast to 16 bits.
# - **Most of PyTorch's losses, and `prod`,** get their inputs cast to FP32.
# - **An op on no list** takes what it is given: `+`, `*`, `tanh`, `mean` and many more. If you add an FP16
#   and an FP32 matrix, the wider dtype wins, as without autocast. FP16 and BF16 give FP32, because
#   neither can hold the other's numbers.
#
# So a loss that you write yourself isn't protected: `(h * h).mean()` is FP16. And autocast's cast
# makes a copy: the weight itself is still FP32.
#
# ## Where does `.float()` go?
#
# Back to the norm. Two people fix it with one `.float()` each:


# %%
class CastSquares(nn.Module):
    def forward(self, h):
        mean_square = (h * h).float().mean(dim=1, keepdim=True)
        return h * (mean_square + 1e-6).rsqrt()


class CastFirst(nn.Module):
    def forward(self, h):
        h = h.float()
        mean_square = (h * h).mean(dim=1, keepdim=True)
        return h * (mean_square + 1e-6).rsqrt()


# %% tags=["question"]
predict("autocast_ops.where_to_widen")

# %%
_, cast_squares, _ = train(CastSquares())
_, cast_first, _ = train(CastFirst())
plots.training(
    {"FP32": fp32, "CastSquares": cast_squares, "CastFirst": cast_first},
    title="Two ways to fix the norm",
    ylabel="error per pixel",
)

# %% [markdown]
# Only `CastFirst` learns as in FP32. `CastSquares` converts the squares when they are inf already.
#
# ## Would CUDA do the same?
#
# CUDA has lists of its own. You don't need a GPU to read them: to choose a dtype, autocast looks at
# devices and dtypes, and not at numbers. So this course asks with [[term fake tensor|fake tensors]],
# which have a device and a dtype but no data. (How that works is shown in [[deep autocast_ops]].) If
# your machine has a CUDA GPU, the op browser below asks the GPU itself.
#
# You can look up any op in the browser. "as given" means that the op is on no list. To begin with, you
# see the ops that have `norm` in their name. Which of `layer_norm`, `group_norm`, `rms_norm` and
# `batch_norm` does CUDA compute in FP32?

# %% tags=["live"]
from amp_lessons.lessons.widgets import PolicyBrowser

PolicyBrowser("layer_norm", search="norm")

# %% [markdown]
# Now look up the ops of this block, which doubles the width and the height of a picture. Networks
# that make images have blocks like it. (In the browser, `Upsample` is `interpolate`.)

# %%
block = nn.Sequential(
    nn.Conv2d(8, 8, 3, padding=1),
    nn.GroupNorm(2, 8),  # a norm over groups of channels
    nn.SiLU(),  # x * sigmoid(x)
    nn.Conv2d(8, 8, 3, padding=1),
    nn.Upsample(scale_factor=2),
)
feature_maps = torch.randn(4, 8, 16, 16)

# %% tags=["question"]
predict("autocast_ops.upsampling_block")

# %%
from amp_lessons import explain_autocast

on_cpu = explain_autocast(block, feature_maps, device="cpu", dtype=torch.float16)
on_cuda = explain_autocast(block, feature_maps, device="cuda", dtype=torch.float16)
for cpu, cuda in zip(on_cpu.rows, on_cuda.rows, strict=True):
    print(f"{cpu.short_op:19} CPU {cpu.dtype_out:8} CUDA {cuda.dtype_out}")
print("kept for the backward pass, apart from the parameters:")
print(f"  without autocast  {on_cpu.totals.saved_fp32 / 1024:4.0f} KiB")
print(f"  on a CPU          {on_cpu.totals.saved_amp / 1024:4.0f} KiB")
print(f"  on CUDA           {on_cuda.totals.saved_amp / 1024:4.0f} KiB")

# %% [markdown]
# On CUDA three results are FP32. GroupNorm and Upsample are on its FP32 list, and SiLU passes on
# what GroupNorm gives. So CUDA keeps more. `explain_autocast` runs a model on fake tensors, so it
# computes nothing and needs no GPU. The next cell shows its whole report: every cast, what is kept
# for the backward pass, and warnings. Put your own model and inputs in place of the block. In a
# terminal, `amp-lessons explain` does the same.

# %% tags=["live"]
explain_autocast(block, feature_maps, device="cuda", dtype=torch.float16)

# %% [markdown]
# ## The lists of both devices
#
# These are ops that you meet often. The browser has about 300.
#
# | op | on a CPU | on CUDA |
# |---|---|---|
# | most matrix products, `linear`, convolutions, attention, `prelu` | 16 bits | 16 bits |
# | most of PyTorch's losses, `prod`, `cdist` | FP32 | FP32 |
# | `softmax`, `log_softmax`, `logsumexp`, `softplus` | as given | FP32 |
# | `layer_norm`, `group_norm`, `rms_norm` | as given | FP32 |
# | `exp`, `log`, `pow`, `rsqrt`, `reciprocal` | as given | FP32 |
# | `sum`, `cumsum`, `norm`, `cosine_similarity` | as given | FP32 |
# | `interpolate`, in all modes but "area" | as given | FP32 |
# | `mean`, `var`, `std`, `max`, `sqrt`, `sigmoid`, `tanh`, `relu`, `gelu` | as given | as given |
# | `batch_norm`, `embedding`, `dropout`, `+`, `*` | as given | as given |
#
# A third, short list casts to the widest dtype among the inputs. On CUDA, `dot` and `scatter_add` are on
# it, so they accept an FP16 tensor beside an FP32 one.
#
# "Autocast keeps softmax and reductions in FP32" is a sentence that you'll hear. It's true of softmax on
# CUDA, but not on a CPU. It's true of `sum` on CUDA, but `mean`, `var` and `max` are on no list.
#
# ## The same square, written in another way
#
# The colleague's norm has `h * h`, where `h` is FP16. Suppose it had `h ** 2` or `h.square()`, and nothing
# else were different.

# %%
from amp_lessons import op_policy

# low: the dtype that the op gives for an FP16 input, in a region for FP16
for square, op in {"h ** 2": "__pow__", "h.square()": "square", "h * h": "mul"}.items():
    cpu, cuda = op_policy(op, "cpu"), op_policy(op, "cuda")
    print(f"{square:10}  CPU {cpu.low}  CUDA {cuda.low}")

# %% [markdown]
# `h ** 2` calls `pow`, which is on CUDA's FP32 list, and PyTorch computes `h.square()` by calling
# `pow` too. So the same formula can work on a GPU and fail on a laptop, and somebody who tidies up
# the code may change one way of writing it into another. If a square must not overflow, write
# `h.float()`.
#
# Lists also change between versions. PyTorch 2.12 put `rms_norm` on CUDA's FP32 list, and somebody's
# BF16 model under `torch.compile` became slower and needed more memory
# ([issue 188955](https://github.com/pytorch/pytorch/issues/188955)). So if your model depends on a
# dtype, write `.float()`, and keep an assertion about it in your tests.
#
# CUDA's autocast refuses one loss, `binary_cross_entropy`. [[lesson losses_and_ops]] shows why, and
# what to use instead.
#
# ## Another overflow, another `.float()`
#
# Attention, the heart of a transformer, multiplies rows called queries with rows called keys. Each
# product of two rows is a score. Here every row has 64 numbers, and each number is 100. The true score
# is 64 · 100 · 100 = 640,000, too large for FP16. So somebody adds `.float()`, as in `CastFirst`.

# %% tags=["question"]
predict("autocast_ops.float_then_matmul")

# %%
queries = keys = torch.full((4, 64), 100.0, dtype=torch.float16)
with torch.autocast("cpu", dtype=torch.float16):
    scores = queries @ keys.T
    cast_before = queries.float() @ keys.float().T
    with torch.autocast("cpu", enabled=False):
        autocast_off = queries.float() @ keys.float().T
print(f"queries @ keys.T          {scores.dtype}  {scores.max():,.0f}")
print(f"with .float()             {cast_before.dtype}  {cast_before.max():,.0f}")
print(f"and with autocast off     {autocast_off.dtype}  {autocast_off.max():,.0f}")

# %% [markdown]
# `.float()` alone changes nothing: autocast casts the inputs of a matrix product back to FP16. In a
# region with `enabled=False` it doesn't. In a function that should work on a CPU and on a GPU,
# write `with torch.autocast(queries.device.type, enabled=False):`. [[Lesson autocast_regions]] has
# more on such inner regions.
#
# ## What does a parameter cost?
#
# You can read that AMP halves the model, and also that it keeps an extra master copy of the weights
# in FP32.

# %% tags=["question"]
predict("autocast_ops.bytes_per_parameter")

# %%
for name, enabled in {"FP32": False, "autocast": True}.items():
    model = autoencoder()
    optimizer = torch.optim.Adam(model.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        loss = mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    count = sum(p.numel() for p in model.parameters())
    weights = sum(p.nbytes for p in model.parameters())
    gradients = sum(p.grad.nbytes for p in model.parameters())
    states = optimizer.state.values()
    averages = sum(s["exp_avg"].nbytes + s["exp_avg_sq"].nbytes for s in states)
    print(f"{name:9} bytes per parameter: {weights / count:.0f}", end="")
    print(f" + {gradients / count:.0f} + {averages / count:.0f} for Adam")

# %% [markdown]
# Still 16: autocast changes neither the parameters nor their gradients nor Adam's averages. The
# 16-bit weights are copies, and gone by then.
#
# ## What is kept for the backward pass?
#
# Autocast saves memory elsewhere: in the tensors that autograd keeps between the forward and the backward
# pass. Take the painter without a norm. Autograd keeps the inputs of its four linear layers, and three
# of these are also the results of `tanh`. It keeps the weights of all linear layers but the first,
# whose input needs no gradient. And it keeps what `mse_loss` needs: the painting and the original.

# %% tags=["question"]
predict("autocast_ops.kept_in_float32")

# %%
from amp_lessons.lessons.experiments import saved_for_backward


def forward(mixed):
    with torch.autocast("cpu", dtype=torch.float16, enabled=mixed):
        return mse_loss(model(x), x)


without = saved_for_backward(lambda: forward(mixed=False))
under = saved_for_backward(lambda: forward(mixed=True))
for tensor in under:
    print(f"{tensor.dtype}  {tensor.shape[0]:3} x {tensor.shape[1]}")
print(f"without autocast: {sum(tensor.nbytes for tensor in without) / 1024:.0f} KiB")
print(f"with autocast:    {sum(tensor.nbytes for tensor in under) / 1024:.0f} KiB")

# %% [markdown]
# `mse_loss` computes in FP32, so what it keeps is FP32. Here the whole is only 16% smaller.
# [[Lesson memory]] adds all of this up, for networks in which it matters.
#
# ## When two dtypes meet
#
# Where autocast doesn't cast, an FP16 tensor can meet an FP32 tensor. Some ops convert one of them, as `+`
# does. Others raise an error. Say you collect features in a large FP32 tensor, called `memory`. The
# features are FP16, because they come out of a matrix product in the region. There are two ways to
# store them:
#
# - `memory[:4] = features` copies them into the first four rows.
# - `memory[rows] = features` writes them into chosen rows. This calls an op of its own, `index_put_`.
#
# Both write in place, and autocast leaves alone ops that write in place. The next cell tries both, and
# some lines more. `raised_by` runs a line and says which error it raises.

# %% tags=["question"]
predict("autocast_ops.memory_of_features")

# %%
memory, rows = torch.zeros(9, 64), torch.tensor([0, 2, 4, 6])
result, doubles = torch.empty(4, 64), torch.ones(4, 64, dtype=torch.float64)
lines = [
    "memory[:4] = features",
    "memory[rows] = features",
    "memory[:4].add_(features)",
    "torch.mm(features, weight, out=result)",
    "doubles @ weight",
]
with torch.autocast("cpu", dtype=torch.float16):
    features = x[:4] @ weight
    for line in lines:
        print(f"{line:39}", raised_by(line, globals()))
print("features @ weight, after the region    ", raised_by("features @ weight", globals()))

# %% [markdown]
# A copy into a slice converts, and `index_put_` doesn't. Each of these errors has a fix. In
# PyTorch's messages, `Half` is FP16, and `Float` is FP32.
#
# | where | why | what to do |
# |---|---|---|
# | `memory[rows] = h`, `index_copy_`, `index_add_`, `scatter_` | They want one dtype, and autocast doesn't cast for ops that write in place | `h.to(memory.dtype)` |
# | `out=` | For nearly all ops, autocast doesn't cast here either. A matrix product then wants one dtype for both inputs and the result | Leave out `out=` |
# | float64, NumPy's default | Autocast casts the FP32 weight to FP16, but not the float64 data | `.float()` on the data |
# | after the region | A 16-bit result meets an FP32 weight, and nobody casts any more | `.float()` on the result, or move the layer into the region |
#
# Two cases raise nothing. `memory[:4].add_(h)` converts `h` silently, and the result keeps the dtype of
# `memory`. And if a call names a dtype, its result has that dtype: `softmax(h, dim=-1,
# dtype=torch.float32)` is FP32 on any device.
#
# Name the dtype in `torch.autocast`, too. Without one, PyTorch 2.13 takes BF16 on a CPU, but FP16
# on CUDA. And a region is for one type of device: `torch.autocast("cuda")` does nothing to tensors
# on a CPU.
#
# ## Recap
#
# 1. Autocast looks up each op in its lists, and casts copies of the inputs. An op on no list takes what
#    it is given.
# 2. `@`, linear layers and convolutions run in 16 bits, and most of PyTorch's losses in FP32, on both
#    devices. Softmax, layer norm, `exp` and `sum` are FP32 on CUDA, but not on a CPU.
# 3. Don't rely on autocast to protect your own formulas. Convert to FP32 before the number that overflows.
#    For a matrix product, also turn autocast off.
# 4. Parameters, their gradients and the optimizer's state stay FP32. What linear layers and
#    convolutions keep for the backward pass is 16 bit.
# 5. Autocast leaves alone ops in place, nearly all calls with `out=`, float64 tensors, and everything
#    outside the region. Lists differ between devices and versions, so test the dtypes that you rely on.
#
# ## Three questions

# %% tags=["question"]
ask(
    "autocast_ops.softmax_after_linear",
    "autocast_ops.float_before_matmul",
    "autocast_ops.what_is_16_bit",
)

# %% [markdown]
# **Next:** [[exercises autocast_ops|the exercises]]: an oracle for dtypes, mismatches to fix,
# assertions for a whole model, one op to keep in FP32, and a count of how much really runs in 16 bits.
# Then [[lesson autocast_regions]]: where a region begins and ends, and what it caches. Optional:
# [[deep autocast_ops]], on asking CUDA without CUDA, and on ops that don't do what their name suggests.
