# %% [markdown]
# # Lesson 03: AMP from scratch
#
# **You will be able to** write a mixed precision training step by hand, name the three ingredients
# that make it work, and recognise from its symptoms which one is missing.
#
# **Time** 40 minutes. **Needs** [[lesson how_numbers_break]]; no GPU.
#
# `torch.amp` is not used to train here. A training step in mixed precision fits in ten lines of
# ordinary PyTorch, and what is special about it answers the three faults of [[lesson how_numbers_break]]. Later
# lessons show what PyTorch automates of it, and how.

# %%
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from amp_lessons import plots
from amp_lessons.training import digits_network, load_digits

half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
digits = load_digits()
network = digits_network()  # 64 inputs, two hidden layers of 64, 10 classes
SMALL = 1e-6  # what the loss is multiplied by
torch.set_num_threads(1)  # so small a network is fastest on one core

# %% [markdown]
# `SMALL` stands for a loss with a small weight, such as one of many auxiliary losses. It makes
# every gradient a million times smaller. In FP32, with plain SGD, that changes nothing but the
# learning rate: it has to be a million times larger.

# %% [markdown]
# ## Three ingredients
#
# | ingredient | what it does | which fault it answers |
# |---|---|---|
# | **FP32 master weights** | the optimizer updates FP32 weights; each step makes 16-bit copies of them | swamping of updates |
# | **loss scaling** | the loss is multiplied before backward, the gradients are divided after it | underflow of gradients |
# | **wide accumulation** | sums run in FP32, and so do losses, exps and norms | swamping in sums, overflow |
#
# They come from [Micikevicius et al., 2017](https://arxiv.org/abs/1710.03740), and PyTorch's AMP is
# made of them.

# %%
plots.dtype_flow(
    (
        ("master\nweights", "FP32"), ("copies", "FP16"), ("forward", "FP16"), ("loss\n× scale", "FP32"),
        ("backward", "FP16"), ("gradients\n/ scale", "FP32"), ("update", "FP32"),
    ),
    title="One step: what is in 16 bits and what is not",
)  # fmt: skip

# %% [markdown]
# ## One step, by hand
#
# `weights` holds the masters: plain tensors, by name. `functional_call` runs the network with other
# weights than its own, here with the copies. **Predict:** which dtype do `logits`, `loss` and
# `gradients` have when `dtype` is FP16?


# %%
def step(weights, images, labels, lr, scale=1.0, dtype=half):
    """One step of SGD on `weights`, in place. Gives logits, loss and unscaled gradients."""
    copies = {n: w.to(dtype, copy=True).requires_grad_() for n, w in weights.items()}
    logits = functional_call(network, copies, (images.to(dtype),))
    loss = SMALL * cross_entropy(logits.float(), labels)
    (loss * scale).backward()
    gradients = {n: c.grad.float() / scale for n, c in copies.items()}
    for name, weight in weights.items():
        weight.copy_(weight - lr * gradients[name])
    return logits, loss, gradients


# %%
def fresh_weights(dtype=single):
    """The network's first weights: copies, in this dtype, without autograd."""
    return {n: p.detach().to(dtype, copy=True) for n, p in network.named_parameters()}


images, labels = digits.train_images[:256], digits.train_labels[:256]
masters = fresh_weights()
logits, loss, gradients = step(masters, images, labels, lr=0.2 / SMALL, scale=2.0**24)
for name, tensor in (("logits", logits), ("loss", loss), ("gradient", gradients["0.weight"])):
    print(f"{name:9} {tensor.dtype}")
print("master   ", masters["0.weight"].dtype)

# %% [markdown]
# Five of the lines carry the ingredients. The copies are made from the masters in each step, and
# thrown away after it. `logits.float()` keeps the loss in FP32. `loss * scale` comes before
# backward; `.float() / scale` turns each gradient into FP32 *first* and divides *then*, because the
# other order would let it underflow after all. And `copy_` updates an FP32 weight.
#
# ## Does it match FP32?
#
# The same function trains in FP32, with `dtype=single`. **Predict:** how far apart are the two loss
# curves?


# %%
def train(scale=1.0, dtype=half, masters=single, lr=0.2, steps=150):
    """Losses, last weights and last gradients of a training run, always on the same batches."""
    weights, losses = fresh_weights(masters), []
    random = torch.Generator().manual_seed(1)
    for _ in range(steps):
        batch = torch.randint(len(digits.train_labels), (256,), generator=random)
        x, y = digits.train_images[batch], digits.train_labels[batch]
        _, loss, gradients = step(weights, x, y, lr / SMALL, scale, dtype)
        losses.append(loss.item() / SMALL)
    return losses, weights, gradients


def accuracy(weights):
    """Share of the validation images that are recognised with these weights, in FP32."""
    wide = {n: w.float() for n, w in weights.items()}
    logits = functional_call(network, wide, (digits.validation_images,))
    return (logits.argmax(1) == digits.validation_labels).float().mean().item()


# %%
in_fp32 = train(dtype=single)
by_hand = train(scale=2.0**24)
print("FP32: more than 85% right: ", accuracy(in_fp32[1]) > 0.85)
print("mixed: more than 85% right:", accuracy(by_hand[1]) > 0.85)
apart = max(abs(a - b) for a, b in zip(in_fp32[0], by_hand[0], strict=True))
print("losses never more than 0.02 apart:", apart < 0.02)

# %% [markdown]
# That is mixed precision training, complete. Now take the ingredients away, one at a time.

# %% [markdown]
# ## Without the scale
#
# **Predict:** with `scale=1.0`, how many of the network's 8,970 gradients are not zero in the last
# step? How many weights have moved?

# %%
unscaled = train(scale=1.0)
start = fresh_weights()
print("weights:           ", sum(w.numel() for w in start.values()))
print("gradients not zero:", sum(int(g.count_nonzero()) for g in unscaled[2].values()))
print("weights that moved:", sum(int((unscaled[1][n] != w).sum()) for n, w in start.items()))

# %%
from amp_lessons.formats import FP16
from amp_lessons.loss_scale import exponent_histogram, fates, smallest_safe_scale
from amp_lessons.training import digits_gradients

true_gradients = list(digits_gradients(loss_factor=SMALL).values())
plots.gradient_histogram(exponent_histogram(true_gradients), FP16, scale=2.0**24)

# %% [markdown]
# Nothing warns: the loss is finite, it does not fall, and every gradient is exactly zero. It is not
# only a matter of the last step: what becomes zero anywhere on the way back through the network
# takes all that depends on it along.
#
# Real networks are less extreme. In the paper about 5% of a speech model's weight gradient values
# lie below $2^{-24}$, and a detection network, SSD, needs a scale of 8, no more ([Micikevicius et
# al.](https://arxiv.org/abs/1710.03740), section 3).

# %% [markdown]
# ## Without the master weights
#
# Now let the 16-bit weights be the only ones. With `masters=half` the same line in `step` works out
# the update in FP32, and `copy_` rounds the result to 16 bits. Take a learning rate that is ten
# times smaller: 0.02. **Predict:** after one step, which share of the weights has moved with FP32,
# FP16 and BF16 weights?


# %%
def share_that_moved(dtype):
    _, weights, gradients = train(2.0**24, dtype, masters=dtype, lr=0.02, steps=1)
    before = fresh_weights(dtype)
    moved = sum(int((weights[n] != w).sum()) for n, w in before.items())
    return moved / sum(int(g.count_nonzero()) for g in gradients.values())


fp32, fp16, bf16 = (share_that_moved(dtype) for dtype in (single, half, bfloat))
print("of the weights with a gradient, more than 95% moved in FP32:", fp32 > 0.95)
print("in FP16 fewer than half of them:", fp16 < 0.5)
print("in BF16 fewer than a tenth:     ", bf16 < 0.1)

# %% [markdown]
# The gradients are there, and the scale has done its work. The update, learning rate times
# gradient, is too small beside the weight: in FP16 it can be lost from a ratio of 2048 on, in BF16
# from 256 on. **Predict:** does BF16 with FP32 masters still train with this learning rate? And
# BF16 without them?

# %%
slow = {"lr": 0.02, "steps": 600}
with_masters = train(dtype=bfloat, **slow)
without = train(dtype=bfloat, masters=bfloat, **slow)
print("BF16 with FP32 masters, last loss below 1.5:   ", with_masters[0][-1] < 1.5)
print("BF16 without masters, last loss above 2:       ", without[0][-1] > 2)
print("gradients without masters that are not zero:   ", end=" ")
print(all(g.count_nonzero() > 0 for g in without[2].values()))

# %% tags=["live"]
plots.curves(
    {
        "FP32 masters": with_masters[0],
        "no masters": without[0],
    },
    title="BF16, learning rate 0.02",
    xlabel="steps",
    ylabel="loss",
    alt="Two loss curves that start together. With FP32 master weights the loss falls below 1.5 in "
    "600 steps; with BF16 weights only it stays above 2.",
)

# %% [markdown]
# BF16 has FP32's range, so it needs no loss scale; it needs the masters all the more.
# And a master does not have to show at once: a small update moves it in every step, and the 16-bit
# copy follows when enough of them have come together. Follow one weight. **Predict:** a weight of 1
# gets updates of $-2^{-14}$ in FP16. After how many steps does its copy move for the first time?

# %%
master, stored = torch.tensor(1.0), torch.tensor(1.0, dtype=half)
for count in range(1, 101):
    master -= 2.0**-14
    stored -= 2.0**-14
    if count in (1, 4, 5, 12, 100):
        print(f"after {count:3}: copy {master.half().item():<12} without master {stored.item()}")

# %% [markdown]
# Four updates take the master to $1 - 2^{-12}$, half-way to the next FP16 number, and the tie goes
# to the even one, 1. The fifth tips it over. Without a master each single update is rounded away.

# %% [markdown]
# ## Without wide accumulation
#
# The third ingredient hides in places where one does not look: inside a matrix product, in the mean
# of a loss, in a norm. Begin with the loss. It is about 2.3 an image before training; here are the
# losses of all training images, eight times over, added up one by one in 16 bits. **Predict:** what
# is the total in FP16, and in BF16?

# %%
with torch.no_grad():
    logits = network(digits.train_images)
    losses = cross_entropy(logits, digits.train_labels, reduction="none").repeat(8)
print("between 2 and 4:", bool((losses > 2).all() and (losses < 4).all()), "count:", len(losses))
print("true total above 24000:", bool(losses.double().sum() > 24000))
for dtype in (half, bfloat):
    total = torch.zeros((), dtype=dtype)
    for loss in losses.to(dtype):
        total += loss
    factor = losses.double().sum() / total.double()
    print(f"one by one in {dtype}: {total.item():g}, too small by a factor of {factor:.0f}")

# %% [markdown]
# The sum stands still once its ulp is more than twice the loss: from 8192 on in FP16, where the ulp
# is 8, and from 1024 on in BF16. The mean that comes out of it is too small by the same factor, and
# looks like a network that has learned something.
#
# `torch.sum` accumulates in FP32 inside and does better. But what is *stored* is 16 bits again, and
# there the loss scale turns against you. **Predict:** the loss of the fresh network is 2.3. What is
# it times $2^{16}$ in FP16? And the gradients that come back from it?

# %%
copies = {n: w.half().requires_grad_() for n, w in fresh_weights().items()}
logits = functional_call(network, copies, (images.half(),))
for name, loss in (
    ("loss in FP16", cross_entropy(logits, labels)),
    ("loss in FP32", cross_entropy(logits.float(), labels)),
):
    scaled = loss * 2.0**16
    back = torch.autograd.grad(scaled, list(copies.values()), retain_graph=True)
    print(name, "finite:", bool(scaled.isfinite()), end=", ")
    print("all gradients finite:", all(bool(g.isfinite().all()) for g in back))

# %% [markdown]
# A loss in FP16 overflows under a quite ordinary scale, and the gradients with it: one such step,
# and every weight that it reaches is lost. This is why `step` says `logits.float()`.
#
# The gradients' norm is another such place. **Predict:** each gradient, times $2^{32}$, fits FP16.
# Does the norm of all of them?

# %%
scaled = torch.cat([g.flatten() for g in true_gradients]) * 2.0**32
print("every scaled gradient fits:", bool(scaled.half().isfinite().all()))
print("norm by squares in FP16:   ", scaled.half().square().sum().sqrt().item())
print("norm by squares in FP32:   ", "finite:", bool(scaled.square().sum().sqrt().isfinite()))

# %% [markdown]
# The squares add up to more than 65504 before the root is taken.
#
# Inside a matrix product it is the *kernel*, the code that computes it, that accumulates: tensor
# cores multiply 16-bit numbers and can add the products up in FP32. **Predict:** a row of 4,096
# ones times a column of ones. What does PyTorch's FP16 product give, and what does a 16-bit
# accumulator give?

# %%
row = torch.ones(1, 4096, dtype=half)
print("matrix product:    ", (row @ row.T).item())
total = torch.zeros((), dtype=half)
for a, b in zip(row[0], row[0], strict=True):
    total += a * b
print("16-bit accumulator:", total.item())

# %% [markdown]
# This product ran on your CPU. On CUDA products are added up in FP32 too, as a rule; but PyTorch
# lets some GPUs round a few of the sums on the way to FP16, for speed ([numerical
# accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html); not measured here).

# %% [markdown]
# ## What torch.amp does with this
#
# PyTorch automates the casts (`torch.autocast`, lessons [[lesson autocast_ops|04]] and [[lesson autocast_regions|05]]) and the scale
# (`torch.amp.GradScaler`, [[lesson grad_scaler]]). It is often said that autocast keeps a master copy of the
# weights. **Predict:** after a backward pass under autocast, in which dtype are the parameters, the
# logits, and the gradients? How do the gradients compare with those of our `step`?

# %%
model = digits_network()
with torch.autocast("cpu", dtype=half):
    logits = model(images)
    loss = SMALL * cross_entropy(logits, labels)
(loss * 2.0**24).backward()
print("parameters", {p.dtype for p in model.parameters()})
print("logits    ", logits.dtype, "  loss", loss.dtype)
print("gradients ", {p.grad.dtype for p in model.parameters()})
ours = step(fresh_weights(), images, labels, 0.0, scale=2.0**24)[2]
same = [torch.equal(p.grad / 2.0**24, ours[n]) for n, p in model.named_parameters()]
print("equal to ours, bit for bit:", all(same))

# %% [markdown]
# Every gradient is the same, to the last bit, on a CPU. (On CUDA the loss is made in another way
# inside: [[lesson losses_and_ops]].) And there is no master copy: the parameters *are* FP32. Autocast makes 16-bit
# copies of them on the way in, autograd casts their gradients back to FP32, and the copies are
# dropped. So the picture is ours, read from the other side: what we call the masters, PyTorch calls
# the parameters.
#
# A model whose parameters themselves are 16 bits, after `model.half()`, has no masters at all, and
# autocast does not give it any. **Predict:** in which dtype are its gradients?

# %%
halved = digits_network().half()
with torch.autocast("cpu", dtype=half):
    loss = SMALL * cross_entropy(halved(images), labels)
(loss * 2.0**24).backward()
print({p.dtype for p in halved.parameters()}, {p.grad.dtype for p in halved.parameters()})

# %% [markdown]
# ## How to choose a scale
#
# Our $2^{24}$ is a *static* scale: a number chosen once. Which ones would have done? Count what
# becomes of the true gradients for every power of two. **Predict:** how wide is the window in which
# none becomes zero and none overflows?

# %%
plots.fates_by_scale(fates(true_gradients, [2.0**e for e in range(0, 49)]), FP16)

# %%
counted = dict(enumerate(fates(true_gradients, [2.0**e for e in range(0, 49)])))
window = [e for e, f in counted.items() if f.zero == 0 and f.overflow == 0]
print(f"no loss at either end: 2^{window[0]} to 2^{window[-1]}")
print("smallest safe scale:", smallest_safe_scale(true_gradients) == 2.0 ** window[0])
for e in (8, 36, 44):
    weights = train(scale=2.0**e)[1]
    finite = all(w.isfinite().all() for w in weights.values())
    print(f"2^{e}: {counted[e].zero} become zero, {counted[e].overflow} overflow;", end=" ")
    print(f"finite weights: {finite}, more than 85% right: {accuracy(weights) > 0.85}")

# %% [markdown]
# The window is wide, and this training forgives a good deal below it: at $2^8$ many gradients are
# lost, and the large ones do the work. It forgives nothing above. One overflow makes a gradient
# inf or NaN, the update writes it into the masters, and the network is lost.
#
# So a step whose gradients are not all finite must be *skipped*, before the weights are touched;
# you write such a scaler in the exercises. And the scale needs *headroom*, room between the largest
# scaled gradient and 65504, because gradients can grow. **Predict:** over 150 steps, does the
# largest gradient stay where it was?

# %%
largest = []
for steps in (1, 150):
    gradients = train(scale=2.0**24, steps=steps)[2]
    largest.append(max(g.abs().max().item() for g in gradients.values()))
print("largest gradient after 150 steps, over that of the first, more than 1.5:", end=" ")
print(largest[1] / largest[0] > 1.5)

# %% [markdown]
# A static scale has to fit the largest gradient of the whole training, which is not known
# beforehand. A *dynamic* scale is found on the way: double it after many clean steps, halve it and
# skip the step when something overflows. That is `GradScaler`, and [[lesson grad_scaler]]. Both multiply by
# powers of two. **Predict:** why not by 1000?

# %%
g = torch.cat([g.flatten() for g in true_gradients])
for scale in (2.0**10, 1000.0):
    changed = int((g * scale / scale != g).sum())
    print(f"times {scale:g} and back: changes some gradients: {changed > 0}")

# %% [markdown]
# A power of two only moves the exponent. With any other factor each gradient is rounded once more
# on the way there and once more on the way back.

# %% [markdown]
# ## Recap
#
# 1. Mixed precision is three ingredients: FP32 master weights, loss scaling, wide accumulation.
# 2. Without the scale gradients become exactly zero; without masters the gradients are there, and
#    their updates vanish.
# 3. Without wide accumulation sums stand still, and losses and norms overflow; the loss belongs in
#    FP32.
# 4. `torch.amp` keeps no master copy: parameters and gradients are FP32, the 16-bit copies pass.
# 5. A scale is a power of two with headroom; a step with an inf or NaN gradient is skipped whole.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "amp_from_scratch.missing_ingredient",
    "amp_from_scratch.half_then_autocast",
    "amp_from_scratch.unscale_order",
)

# %% [markdown]
# **Next:** [[exercises amp_from_scratch|five exercises]]: an optimizer with masters, a
# scaler that skips, a scale with headroom, a loss with its casts in the right places, and runs to
# diagnose. Then [[lesson autocast_ops]]: what autocast does to each op.
