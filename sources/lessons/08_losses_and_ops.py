# %% [markdown]
# # Lesson 08: Losses, norms and your own ops
#
# **You will be able to** write a loss, a norm and a residual stream that hold in 16 bits, say what
# `custom_fwd` and `custom_bwd` do and what they do not, and give an op of your own a rule for
# autocast.
#
# **Time** 60 minutes. **Needs** lessons [[lesson how_numbers_break|02]], [[lesson autocast_ops|04]], [[lesson autocast_regions|05]] and [[lesson grad_scaler|06]]; no GPU.
#
# Autocast knows torch's ops. It does not know your formulas. A loss written out by hand, a norm, a
# sum over a layer's outputs, an `autograd.Function`: there the dtypes are yours to choose. Each
# part of this lesson takes one such formula, breaks it in 16 bits, and writes it so that it holds.

# %%
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons import plots
from amp_lessons.policy import op_policy
from amp_lessons.trace import explain_autocast

half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
tensor = torch.tensor


def side_by_side(*ops):
    for op in ops:
        cpu, cuda = op_policy(op, "cpu", half), op_policy(op, "cuda", half)
        print(f"{op:21} CPU {cpu.group:12} CUDA {cuda.group}")


# %% [markdown]
# ## An eps that survives
#
# An eps of 1e-8 is 0 in FP16, and 1e-7 is not ([[lesson how_numbers_break]]). But a loss is there to be
# differentiated. **Predict:** for which eps are log(0 + eps) *and* its gradient finite in FP16?

# %%
for eps in (1e-8, 1e-7, 1e-5, torch.finfo(half).smallest_normal):
    p = tensor(0.0, dtype=half, requires_grad=True)
    loss = (p + eps).log()
    loss.backward()
    print(f"eps {eps:<8.2g} log {loss.item():<8.4g} gradient {p.grad.item():g}")

# %% [markdown]
# The gradient of the logarithm is 1/eps, and 1/1e-5 is 100,000: more than FP16 can hold. The
# smallest *normal* number of FP16, $2^{-14}$, survives both ways. Ask the dtype for it. But there
# is no room to spare: a `GradScaler` multiplies the gradient, and with a scale of 4 it overflows. A
# loss that needs no eps is better.
#
# On the other side of the interval the same eps is lost for another reason. **Predict:** p is
# clamped to at most 1 − 1e-7. What is the largest p then, in each format?

# %%
for dtype in (single, half, bfloat):
    p = tensor(1.0, dtype=dtype).clamp(max=1 - 1e-7)
    print(f"{dtype!s:14} 1 - p = {(1 - p).item():.3g}")

# %% [markdown]
# Below 1 the spacing is $2^{-11}$ in FP16 and $2^{-8}$ in BF16, so 1 − 1e-7 *is* 1. An eps as large
# as the spacing would keep `log(1 - p)` finite, and cut off every p closer to 1.
#
# An optimizer has an eps too. **Predict:** Adam on three weights of 1.0, all in one format. The
# gradients are 1e-5, 0 and 0.01, the learning rate 0.01. Which weights are where they should be?

# %%
for dtype in (single, half, bfloat):
    weight = torch.ones(3, dtype=dtype, requires_grad=True)
    weight.grad = tensor([1e-5, 0.0, 1e-2], dtype=dtype)
    torch.optim.Adam([weight], lr=0.01).step()
    print(f"{dtype!s:14}", [round(w, 4) for w in weight.tolist()])

# %% [markdown]
# Adam divides by the root of the mean square plus 1e-8. In FP16 the square of 1e-5 is 0 and so is
# 1e-8: that is x/0 for the first weight, and 0/0 for the second, which had no gradient at all. The
# third is a little off too: its mean square, 1e-7, is subnormal. BF16 has the range, and rounds to
# its spacing. In mixed precision Adam works on float32 parameters, and none of this happens. It is
# one more reason not to write `model.half()`.
#
# So is *"NaN comes from underflow"* true? Underflow gives a 0, and a 0 is quiet. The NaN comes from
# what is done with it: 0/0 here, and below a logarithm of 0, which is −inf, times a 0.

# %% [markdown]
# ## A loss from the logit
#
# The binary loss of [[lesson how_numbers_break]], now with its gradient. The logit is 10, the target 0, so the loss is
# about 10 and the gradient about 1. **Predict:** which of the six gradients are right?


# %%
def from_probability(logit):
    return -(1 - torch.sigmoid(logit)).log()


def from_logit(logit):
    return F.binary_cross_entropy_with_logits(logit, torch.zeros_like(logit))


def gradient(loss_fn, value, dtype):
    logit = tensor(value, dtype=dtype, requires_grad=True)
    loss_fn(logit).backward()
    return logit.grad.item()


for dtype in (single, half, bfloat):
    a, b = (gradient(f, 10.0, dtype) for f in (from_probability, from_logit))
    print(f"{dtype!s:14} by the probability {a:.4f}   from the logit {b:.4f}")

# %% [markdown]
# In FP16 and BF16 the sigmoid is 1, 1 − 1 is 0, and the chain rule multiplies an infinite 1/0 by
# the sigmoid's slope, p(1 − p), which is 0. float32 does better, and not for ever. **Predict:** up
# to which logit?


# %%
def last_right(loss_fn, dtype):
    """The last whole logit up to 40 with a gradient within 5% of the true one, near 1."""
    right = [abs(gradient(loss_fn, float(z), dtype) - 1) < 0.05 for z in range(3, 41)]
    return 2 + [*right, False].index(False)


ends = {"from the logit, BF16": last_right(from_logit, bfloat)}
for name, dtype in (("FP32", single), ("FP16", half), ("BF16", bfloat)):
    ends[f"by the probability, {name}"] = last_right(from_probability, dtype)
plots.reaches(
    ends,
    title="How far the gradient of a binary loss is right (target 0)",
    xlabel="logit: the larger, the more wrong the model is",
)

# %% [markdown]
# In 16 bits the examples that the model has most wrong are the ones that break it.
#
# `nn.BCELoss` takes the same way with two guards: it cuts the logarithm off at −100, and divides by
# 1e-12 at least. **Predict:** do they help? And does autocast, which computes this loss in float32
# on a CPU? And a `.float()` between the sigmoid and the loss?


# %%
def bce(dtype, cast):
    x = tensor([[10.0]], requires_grad=True)
    with torch.autocast("cpu", dtype=dtype):
        logit = x @ torch.eye(1)
        p = torch.sigmoid(logit.float() if cast == "logit" else logit)
        p = p.float() if cast == "probability" else p
        loss = F.binary_cross_entropy(p, torch.zeros(1, 1))
    loss.backward()
    return f"{loss.dtype}, loss {loss.item():.0f}, gradient {x.grad.item():.0f}"


for cast in ("nothing", "probability", "logit"):
    print(f"{cast} cast")
    print("   FP16:", bce(half, cast))
    print("   BF16:", bce(bfloat, cast))

# %% [markdown]
# A float32 loss of a rounded probability is a float32 wrong number: the loss is 100. The gradient
# is 0 times 1e12: 0 in BF16, and NaN in FP16, where 1e12 is inf. What counts is where the *sigmoid*
# runs. That is why CUDA's autocast refuses the op as "unsafe to autocast" ([[lesson autocast_ops]]), and names
# `binary_cross_entropy_with_logits` as the cure. On a CPU nobody stops you.

# %% [markdown]
# ## Many classes
#
# Label smoothing adds the mean of −log p over *all* classes. **Predict:** one logit of 15 among
# zeros, in FP16: what does the mean give for 10 and for 10,000 classes, by a sum and by `mean`? And
# torch's own loss, in FP16 and under autocast?

# %%
label = tensor([0])
for classes in (10, 10_000):
    logits = torch.zeros(1, classes, dtype=half)
    logits[0, 0] = 15.0
    minus_log_p = -F.log_softmax(logits, -1)
    print(f"{classes} classes")
    print("   sum, then divided", (minus_log_p.sum() / classes).item())
    print("   mean             ", minus_log_p.mean().item())
    loss = F.cross_entropy(logits, label, label_smoothing=0.1)
    print(f"   cross_entropy     {loss.item():.2f}")
    with torch.autocast("cpu", dtype=half):
        loss = F.cross_entropy(logits, label, label_smoothing=0.1)
    print(f"   under autocast    {loss.item():.2f}")

# %% [markdown]
# The 10,000 terms of 15 are 150,000 together. `mean` accumulates in a wider format and divides
# before it rounds; a sum is rounded first. torch's own loss sums, so in a model cast to FP16 it
# overflows, while under autocast that sum is float32. That is an argument for torch's loss inside
# the region, and against one of your own.
#
# Look inside it once more, with `explain_autocast` ([[lesson autocast_ops]]). The loss is float32 on both
# devices. **Predict:** in which dtype are the log-probabilities that it is made of?


# %%
class Loss(nn.Module):
    def forward(self, logits, label):
        return F.cross_entropy(logits, label)


for device in ("cpu", "cuda"):
    rows = explain_autocast(Loss(), logits, label, device=device, dtype=half).rows
    print(f"{device:4}", *(f" {row.short_op} -> {row.dtype_out}" for row in rows))
print(
    "spacing of FP16 at 12:",
    (torch.nextafter(tensor(12.0).half(), tensor(13.0).half()) - 12).item(),
)

# %% [markdown]
# A CPU has a rule for the whole loss. CUDA has none: there `cross_entropy` calls log_softmax and
# *names* the dtype of its input, which autocast respects ([[lesson autocast_ops]]), and only the second half is
# float32. So on a GPU the loss is a float32 number made of FP16 log-probabilities; near −12 these
# are $2^{-7}$ apart. Many training loops say `F.cross_entropy(logits.float(), labels)`: one cast,
# and the same loss on every device.

# %% [markdown]
# ## Sums, means, variances
#
# "Autocast does softmax and reductions in FP32" is half true ([[lesson autocast_ops]]):

# %%
side_by_side("softmax", "sum", "norm", "logsumexp", "mean", "var", "std")

# %% [markdown]
# **Predict:** where they are left in FP16, which of these overflow: sum and mean of 100,000 threes,
# var and std of a thousand values of ±600, logsumexp of 70,000 zeros?

# %%
threes = torch.full((100_000,), 3.0, dtype=half)
x = tensor([-600.0, 600.0] * 500, dtype=half)
print("sum", threes.sum().item(), "  mean", threes.mean().item())
print("var", x.var().item(), "  std", round(x.std().item(), -1))
zeros = torch.zeros(70_000, dtype=half)
print("logsumexp of 70,000 zeros, which is 11.2:", zeros.logsumexp(0).item())

# %% [markdown]
# The kernels accumulate wider than they store. So what matters is whether the *result* fits: a mean
# is never larger than the values and a standard deviation is of their size, while a sum and a
# variance may be far larger. logsumexp is put together from other ops, and the sum in the middle of
# it did not fit. Under CUDA's autocast `sum` and `logsumexp` are float32 and safe; `var` is on no
# list anywhere.
#
# Now a formula that a dtype does not mend. The variance as E[x²] − E[x]², the mean of the squares
# less the square of the mean, lost its digits in FP16 ([[lesson how_numbers_break]]). **Predict:** what does that
# formula give in float32 for 9999 and 10001, whose variance is 1?

# %%
x = tensor([9999.0, 10001.0])
print("E[x^2] - E[x]^2:  ", (x.square().mean() - x.mean() ** 2).item())
print("mean of (x - E)^2:", (x - x.mean()).square().mean().item())

# %% [markdown]
# The squares are 99,980,001 and 100,020,001. float32 keeps 24 bits, so near 100 million it knows
# multiples of 8 only, and the ones at the end, which make up the variance, are rounded away. "Do it
# in float32" is the second remedy. The first is a formula that subtracts before it squares.

# %% [markdown]
# ## Norms
#
# **Predict:** which of the four norms are float32 under autocast, on a CPU and on CUDA?

# %%
side_by_side("layer_norm", "group_norm", "rms_norm", "batch_norm")

# %% [markdown]
# This is torch 2.13. `rms_norm` was not on CUDA's list until 2.12 put it there ([[lesson autocast_ops]] has the
# issue): the same model gave 16 bits before and float32 after. If the dtype after a norm matters to
# you, assert it.
#
# 16 bits out does not mean 16 bits inside. **Predict:** features of ±300 and ±600 in FP16, on a
# CPU. What do torch's norms give, and what does an RMS norm written out by hand?


# %%
def rms_by_hand(x, eps=1e-6):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


x = tensor([[300.0, -300.0, 600.0, -600.0]], dtype=half)
print("layer_norm    ", [round(v, 3) for v in F.layer_norm(x, (4,))[0].tolist()])
print("rms_norm      ", [round(v, 3) for v in F.rms_norm(x, (4,))[0].tolist()])
print("by hand       ", rms_by_hand(x)[0].tolist())
print("by hand, wide ", [round(v, 3) for v in rms_by_hand(x.float())[0].tolist()])

# %% [markdown]
# torch's kernels read 16 bits, compute in float32 and write 16 bits. By hand, x · x is infinite,
# and 1/√inf is 0: a layer of zeros, with no inf and no NaN to see. The residual connection around
# it goes on as if the layer were not there.
#
# Under CUDA's autocast the spelling decides: `x ** 2` is float32 there and `x * x` is not (lesson
# 04). Write `x.float()` and be done, or call `F.rms_norm`.

# %% [markdown]
# ## Batch norm remembers
#
# batch_norm is on no list of a CPU's or of CUDA's. (On Apple's GPUs, `mps`, autocast runs it in
# float32.) Its statistics are float32, whatever comes in. **Predict:** one activation of FP16
# overflows in one batch, and the scaler skips that step. What does the model give afterwards, in
# evaluation?

# %%
norm = nn.BatchNorm1d(2)
optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
batch = tensor([[1e5, 1.0], [1.0, 2.0], [3.0, 3.0]]).half()  # 1e5 does not fit: inf
with torch.autocast("cpu", dtype=half):
    loss = norm(batch).float().square().mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print("skipped:", scaler.get_scale() < 2**16, "  weights", norm.weight.tolist())
print("running mean", norm.running_mean[0].item(), "  variance", norm.running_var[0].item())
print("evaluation ", norm.eval()(torch.ones(1, 2))[0].isnan().tolist())

# %% [markdown]
# The step was skipped, the weights are fine, and no later batch brings the first channel back: a
# running mean with inf in it stays inf. The statistics are updated in the *forward* pass, which
# nobody takes back. In training mode you will not notice, since the batch's own statistics are
# used.
#
# The second overflow is in the output. **Predict:** a channel that was always the same in training
# has a running variance of about 0. What does it give for 200 and for 300 in evaluation?

# %%
norm = nn.BatchNorm1d(1).eval()
norm.running_var.zero_()
x = tensor([[200.0], [300.0]])
print("float32", [round(v) for v in norm(x)[:, 0].tolist()])
print("FP16   ", norm(x.half())[:, 0].tolist())

# %% [markdown]
# It divides by √(0 + 1e-5), so it multiplies by 316. **Predict:** and in a model cast with
# `.half()`: what is the running variance after a batch of −600 and 600?

# %%
norm = nn.BatchNorm1d(1).half()
norm(tensor([[-600.0], [600.0]], dtype=half))
print(norm.running_var.dtype, norm.running_var.item())

# %% [markdown]
# There the statistics are FP16 too, and overflow from values that are harmless. The remedies:
# `norm(x.float())` for the channel that needs it, statistics in float32 always, and a look at what
# overflowed in front of the norm. Statistics that are lost come back with
# `norm.reset_running_stats()` and some batches in training mode.

# %% [markdown]
# ## Lengths and angles
#
# `F.normalize` divides by a length, with an eps of 1e-12. **Predict:** what does it give in FP16
# for a vector of zeros, and for four times 40,000? And the cosine similarity of the latter with
# itself?

# %%
for dtype in (single, half, bfloat):
    zeros = torch.zeros(1, 4, dtype=dtype, requires_grad=True)
    long = torch.full((1, 4), 40_000.0, dtype=dtype)
    unit = F.normalize(zeros)
    unit.sum().backward()
    print(
        f"{dtype!s:14} zeros {unit[0, 0].item()}, gradient {zeros.grad[0, 0].item():.0e};"
        f" long {F.normalize(long)[0, 0].item():.3g},"
        f" cosine {F.cosine_similarity(long, long).item():.3g}"
    )

# %% [markdown]
# Three faults in one function. 1e-12 is 0 in FP16, so a zero vector gives 0/0. The length of the
# long one is 80,000, so it is divided by inf and becomes zero: a cosine of **0** for two vectors
# that are the same, and no message. And in float32 and BF16, where nothing seems wrong, the
# gradient at zero is 1e12. Under CUDA's autocast both are float32, which mends the first two; on a
# CPU, and outside any region, they are not. Cast first, and choose an eps whose reciprocal may be a
# gradient.

# %% [markdown]
# ## The residual stream
#
# A deep network adds to one tensor, layer after layer. **Predict:** 400 blocks each add 1 to a
# stream that begins at 1. Where does it end in BF16?

# %%
streams = {}
for name, dtype in (("FP32", single), ("BF16", bfloat)):
    stream = tensor(1.0, dtype=dtype)
    streams[name] = [1.0]
    for _ in range(400):
        stream = stream + 1
        streams[name].append(stream.item())
    print(name, "after 400 blocks", stream.item())

# %%
plots.curves(
    streams,
    title="A residual stream to which each block adds 1",
    xlabel="block",
    ylabel="stream",
    alt="In FP32 the stream rises in a straight line to 401; in BF16 it stands still at 256.",
)

# %% [markdown]
# With 8 bits a stream of 256 swallows additions of 1: late blocks that add little change nothing.
#
# FP16 has 3 bits more, and another end. **Predict:** each block adds a quarter of the stream. After
# how many blocks is it infinite: about 50, 500 or 5000?

# %%
stream, block = tensor(1.0, dtype=half), 0
while stream.isfinite():
    stream, block = stream + stream / 4, block + 1
print("infinite after block", block)

# %% [markdown]
# No loss scale helps: the overflow is in the forward pass ([[lesson grad_scaler]]).
#
# So keep the stream in float32. Is it, under autocast? **Predict:** the dtype of
# `stream + block(stream)` where the stream comes from an embedding, and where it comes from a
# linear layer?

# %%
block = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
with torch.autocast("cpu", dtype=bfloat):
    for name, stream in (
        ("embedding", nn.Embedding(10, 8)(tensor([1, 2]))),
        ("linear layer", nn.Linear(4, 8)(torch.ones(2, 4))),
        ("linear, .float()", nn.Linear(4, 8)(torch.ones(2, 4)).float()),
    ):
        print(f"{name:17} starts {stream.dtype}, goes on {(stream + block(stream)).dtype}")

# %% [markdown]
# The first tensor decides, because a sum takes the wider dtype of the two. One `.float()` after the
# layer that makes it (the *stem*) keeps the whole stream in float32, and every matrix product of
# the blocks still runs in 16 bits. The price is memory.
#
# It does not save a block whose *own* output does not fit. Fine-tuning T5 in FP16 gave NaN because
# a linear layer gave 66,246 ([transformers issue
# 5651](https://github.com/huggingface/transformers/issues/5651)): such a layer has to leave the
# region ([[lesson autocast_regions]]), or the region has to be BF16.

# %% [markdown]
# ## Attention beyond the format
#
# A mask value must fit the dtype: `masked_fill(mask, -1e9)` raises in FP16, and `finfo(dtype).min`
# fits ([[lesson how_numbers_break]]). It fits *once*. **Predict:** a padding mask and a causal mask are both added to
# the scores, each with `finfo(dtype).min`. What does a row give that both mask?

# %%
for dtype in (half, bfloat):
    lowest = torch.finfo(dtype).min
    padding = tensor([[lowest, lowest]], dtype=dtype)
    causal = tensor([[lowest, lowest]], dtype=dtype)
    both = padding + causal
    print(dtype, "sum", both[0, 0].item(), "softmax", torch.softmax(both, -1).tolist())

# %% [markdown]
# Combine masks as booleans, and fill once: with `&` where True means "keep", with `|` where it
# means "hide", as for `masked_fill`. Or hand the boolean mask to `scaled_dot_product_attention`,
# for which True means "keep". **Predict:** what does that give for a row with nothing left?

# %%
keep = torch.zeros(1, 2, dtype=torch.bool)
q, k, v = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 2, 8), torch.ones(1, 1, 2, 8)
print(F.scaled_dot_product_attention(q, k, v, keep).unique().tolist())

# %% [markdown]
# Zeros (on a CPU, here).
#
# The scores can overflow before any mask. **Predict:** queries and keys of 64 forties each, in
# FP16. The scores are to be divided by √64 = 8. What do you get if you divide the product, and if
# you divide q?

# %%
q = k = torch.full((2, 64), 40.0, dtype=half)
print("(q @ k.T) / 8:", ((q @ k.T) / 8)[0, 0].item())
print("(q / 8) @ k.T:", ((q / 8) @ k.T)[0, 0].item())

# %% [markdown]
# The score fits, and the product on the way to it, 8 times as large, does not. Divide first.

# %% [markdown]
# ## Buffers of your own
#
# In-place ops and `out=` keep the dtype of what they write into ([[lesson autocast_ops]]), so a buffer decides
# for all that is ever added to it. **Predict:** a running average of ones, with a weight of 0.001
# for each. Where is it after 5000 steps, by the dtype of the buffer?

# %%
for dtype in (single, half, bfloat):
    average, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    for _ in range(5000):
        average.mul_(0.999).add_(one, alpha=0.001)
    print(f"{dtype!s:14} {average.item():.2f}")

# %% [markdown]
# It should be 0.99. In 16 bits what is taken away and what is added are rounded to whole spacings
# of the format, and from some point on the two are equal: the average stands still. A buffer made
# with `zeros_like(h)` or `h.clone()` under autocast is a 16-bit buffer: make it in float32 by name.

# %% [markdown]
# ## Your own Function
#
# An `autograd.Function` has a backward pass that you wrote. autograd knows nothing of its inside;
# `ctx` carries what the backward needs from the one half to the other. This one is a matrix
# product.


# %%
class Product(torch.autograd.Function):
    """x @ weight."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.T, x.T @ grad


# %% [markdown]
# **Predict:** forward in a region, backward outside, as it should be. What happens to the
# gradients?

# %%
x = torch.randn(2, 3, requires_grad=True)
weight = torch.randn(3, 4, requires_grad=True)
with torch.autocast("cpu", dtype=half):
    y = Product.apply(x, weight)
print("forward gives", y.dtype)
try:
    y.sum().backward()
except RuntimeError as error:
    print("backward raises, and speaks of dtypes:", "dtype" in str(error))

# %% [markdown]
# The forward ran in the region: autocast cast x and weight *inside* `@`, and the result is float16.
# But the Function saved what it was given, which is float32, and its backward runs outside: a
# float16 gradient meets a float32 weight. For its own ops torch saves the casts; for yours it
# cannot know.
#
# That was the loud version. Where the formula has no matrix product, or where `backward()` happens
# to be in a region of another dtype, nothing is raised and the wrong dtype is used.
#
# ## What custom_fwd and custom_bwd do
#
# They are often sold as "precision rules". Here is a function that reports what the two halves of a
# Function really see.


# %%
def reporting(fwd=lambda f: f, bwd=lambda f: f):
    """Product, decorated, with a report of autocast's state and of the dtypes it meets."""

    class Reporting(torch.autograd.Function):
        @staticmethod
        @fwd
        def forward(ctx, x, weight):
            report("forward ", x)
            return Product.forward(ctx, x, weight)

        @staticmethod
        @bwd
        def backward(ctx, grad):
            report("backward", grad)
            return Product.backward(ctx, grad)

    return Reporting


# %%
def report(part, given):
    on = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if on else "off"
    print(f"    {part} autocast {dtype!s:14} given {given.dtype}")


def run(title, function, forward_in=half, backward_in=None):
    """Forward and backward of a Function, each in a region of a dtype or, for None, in none."""
    print(title)
    x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=forward_in or half, enabled=forward_in is not None):
        y = function.apply(x, weight)
    try:
        with torch.autocast("cpu", dtype=backward_in or half, enabled=backward_in is not None):
            y.float().sum().backward()
        print("    gradient", x.grad.dtype)
    except (RuntimeError, AttributeError) as error:
        print("    raises", type(error).__name__)


# %% [markdown]
# **Predict:** for each of these five, the state of autocast in the two halves.

# %%
from torch.amp import custom_bwd, custom_fwd

fwd, bwd = custom_fwd(device_type="cpu"), custom_bwd(device_type="cpu")
run("undecorated, backward outside", reporting())
run("undecorated, backward in a bfloat16 region", reporting(), backward_in=bfloat)
run("both decorators, backward outside", reporting(fwd, bwd))
run("both, forward outside, backward inside", reporting(fwd, bwd), None, bfloat)
run("custom_bwd alone", reporting(bwd=bwd))

# %% [markdown]
# `custom_fwd` notes the state of autocast, on or off and with which dtype, and `custom_bwd`
# restores it around the backward pass. That is all: no op is assigned a precision, nothing is cast.
# The region then does to your backward's matrix products what it did to those of the forward. The
# fourth line shows it working the other way too: a float32 forward keeps a float32 backward.
# `custom_bwd` alone has no note to read.
#
# With `cast_inputs=` there is more. **Predict:** which state now, and which dtypes? And outside a
# region?

# %%
wide = custom_fwd(device_type="cpu", cast_inputs=torch.float32)
run("cast_inputs=float32", reporting(wide, bwd))
run("cast_inputs=float32, backward inside", reporting(wide, bwd), backward_in=half)
print("outside a region")
reporting(wide, bwd).apply(torch.ones(2, 3).bfloat16(), torch.ones(3, 4).bfloat16())
other = custom_fwd(device_type="cuda", cast_inputs=torch.float32)
run('device_type="cuda", on CPU tensors', reporting(other, custom_bwd(device_type="cuda")))

# %% [markdown]
# `cast_inputs` casts the floating-point inputs of that device (float64 excepted) and then switches
# autocast **off**, for both halves. So `cast_inputs=torch.float32` is the answer for an op that has
# no 16-bit kernel, or that must not overflow: the way to use AMP with *"custom ops without FP16
# support"*. The other way is a disabled region with `.float()` ([[lesson autocast_regions]]).
#
# Two surprises. Outside a region it does nothing: 16-bit input stays 16 bit. And it looks at one
# device type only: with `"cuda"` on CPU tensors it is as good as not there.
#
# | | state in forward | inputs | state in backward |
# |---|---|---|---|
# | nothing | the caller's | as given | that of whoever calls `backward()` |
# | `custom_fwd`, `custom_bwd` | the caller's | as given | that of the forward |
# | `custom_fwd(cast_inputs=d)`, `custom_bwd`, in a region | off | cast to d | off |
#
# The rules for CUDA tensors are the same. **Predict:** their forward, asked on fake tensors (lesson
# 04; `autocast_on` is a region that is on without a GPU): which dtype without a cast, and with one?

# %%
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lessons.fakes.modes import autocast_on

cuda = {"as given": custom_fwd(device_type="cuda"), "cast to float32": other}
for name, decorator in cuda.items():
    parts = {"forward": staticmethod(decorator(Product.forward))}
    function = type("OnCuda", (torch.autograd.Function,), parts)
    with FakeTensorMode(), autocast_on("cuda", half, True):
        a, b = torch.ones(2, 3, device="cuda"), torch.ones(3, 4, device="cuda")
        print(f"{name:16} -> result {function.apply(a, b).dtype}")

# %% [markdown]
# A backward pass on CUDA needs a CUDA device: not measured here without one.
#
# ## Three ways to get them wrong
#
# **Predict:** what do the decorators do to a Function in the newer style, whose `forward` has no
# `ctx`, and which has a `setup_context` instead? And what does the old name,
# `torch.cuda.amp.custom_fwd`, say?


# %%
class Newer(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    backward = staticmethod(custom_bwd(Product.backward, device_type="cpu"))


run("setup_context", Newer)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.custom_fwd(Product.forward)
print(caught[0].category.__name__, "->", "torch.amp.custom_fwd" in str(caught[0].message))

# %% [markdown]
# `custom_fwd` takes its first argument for `ctx`; here that is x, and the note is pinned on your
# tensor ([pytorch issue 132388](https://github.com/pytorch/pytorch/issues/132388), open). In that
# style note the state in `setup_context` yourself, and open the region in `backward` yourself. The
# old name works and warns; it means `device_type="cuda"`, and has no place to say anything else.
# The third way is the commonest: one decorator of the two.
#
# `torch.autograd.gradcheck` compares a backward pass with differences of the forward. Does it find
# any of this? **Predict:** the undecorated Product, checked outside a region and in one?

# %%
a = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
for enabled in (False, True):
    with torch.autocast("cpu", dtype=half, enabled=enabled):
        print("autocast", enabled, "-> gradcheck", torch.autograd.gradcheck(Product.apply, (a, b)))

# %% [markdown]
# `gradcheck` wants float64, and autocast leaves float64 alone: it tests the formula and cannot see
# a dtype. So two tests: gradcheck with autocast off, and one that runs forward in a region and
# backward outside, and asserts dtypes and values. `explain_autocast` ([[lesson autocast_ops]]) reports a Function
# without decorators:

# %%
from amp_lessons.models import custom_function

model, inputs = custom_function()
for hazard in explain_autocast(model, *inputs, device="cuda", dtype=half).hazards:
    print(hazard.kind, "-", hazard.fix)

# %% [markdown]
# ## Your own op, with a rule
#
# An op that is registered with `torch.library` can have what torch's ops have: a line in autocast's
# list. (`register_fake` tells fake tensors its shape and dtype.) **Predict:** 300 squared, four
# times, in FP16?


# %%
@torch.library.custom_op("amp_lessons::sum_of_squares", mutates_args=())
def sum_of_squares(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(-1)


@sum_of_squares.register_fake
def _(x):
    return x.new_empty(x.shape[:-1])


features = torch.full((2, 4), 300.0, dtype=half)
with torch.autocast("cpu", dtype=half):
    print("without a rule", sum_of_squares(features).tolist(), sum_of_squares(features).dtype)

# %% [markdown]
# **Predict:** with a rule for float32, in a region? Outside one? And on CUDA, asked of a fake
# tensor?

# %%
for device in ("cpu", "cuda"):
    torch.library.register_autocast("amp_lessons::sum_of_squares", device, torch.float32)
with torch.autocast("cpu", dtype=half):
    print("in a region ", sum_of_squares(features).tolist(), sum_of_squares(features).dtype)
print("outside     ", sum_of_squares(features).tolist(), sum_of_squares(features).dtype)
with FakeTensorMode(), autocast_on("cuda", half, True):
    print("CUDA, region", sum_of_squares(torch.ones(2, 4, dtype=half, device="cuda")).dtype)

# %% [markdown]
# `register_autocast` does for an op what `cast_inputs` does for a forward: its inputs are cast,
# autocast is off inside, and outside a region it does nothing. The cast is recorded by autograd, so
# a backward given by `register_autograd` gets float32 too; but nothing restores a state around it.
# Call `backward()` outside the region. There is no rule of the kind "widest".

# %% [markdown]
# ## Said of losses and ops
#
# | claim | what the cells of this lesson and of [[lesson autocast_ops]] show |
# |---|---|
# | "the loss is kept in float32" | the listed losses are; in a loss by hand each op decides, and a float32 loss of a rounded probability is wrong too |
# | "NaN comes from underflow" | underflow gives 0; NaN comes from 0/0, and from an infinity, such as log 0, times 0 |
# | "let autocast handle the dtypes" | not in a backward of yours, not in a buffer, not in a formula |
# | "softmax and reductions in FP32" | softmax and sum on CUDA only; mean, var and std nowhere |
# | "custom ops without FP16 support cannot be used" | `cast_inputs=torch.float32`, `register_autocast`, or a disabled region |
# | "custom_fwd and custom_bwd set precision rules" | they note and restore autocast's state; only `cast_inputs` casts |

# %% [markdown]
# ## Recap
#
# 1. An eps must survive the dtype, and so must 1/eps, times the loss scale. A loss from logits
#    needs none.
# 2. Torch's kernels are wide inside, so ask whether the *result* fits: a mean does, a sum or a
#    variance may not.
# 3. A skipped step takes back neither batch norm's statistics nor a buffer that you wrote in place.
# 4. Keep the residual stream in float32 from its first tensor on; combine masks as booleans.
# 5. `custom_fwd` and `custom_bwd` restore the state of autocast; `cast_inputs` casts and switches
#    it off.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "losses_and_ops.bceloss_in_bf16",
    "losses_and_ops.fp32_only_kernel",
    "losses_and_ops.changed_by_a_skipped_step",
)

# %% [markdown]
# **Next:** [[exercises losses_and_ops|six exercises]]: four losses to stabilise, unit
# vectors, a safe RMS norm, a stream in float32, and two Functions to get right. Then [[lesson memory]]:
# memory.
