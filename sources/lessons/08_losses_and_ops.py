# %% [markdown]
# # Lesson 08: Losses, norms and your own ops
#
# Autocast knows PyTorch's operations. It doesn't know your formulas. In a loss, a norm or an
# `autograd.Function` that you write yourself, you choose the dtypes. Here you meet such formulas
# that break in 16 bits, most of them without a message, and you fix each of them.
#
# **You will be able to** write a loss and a norm that work in 16 bits, and keep a residual stream and
# angles in FP32. You'll also know how to make an `autograd.Function` follow autocast.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson autocast_ops]] and [[lesson grad_scaler]]; no GPU.

# %%
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, mse_loss

from amp_lessons import ScalerLog, ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.training import outcome

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
half, bfloat = torch.float16, torch.bfloat16

# %% [markdown]
# ## A sigmoid at the end
#
# The network of [[lesson amp_in_20_minutes]] paints digits again, this time as black ink on white
# paper: 1 is white, and 0 is black. A colleague adds a sigmoid, which turns each output into a
# probability: how likely is this pixel to be white? The numbers in front of the sigmoid are called
# *logits*. The loss is the binary cross entropy: `BCELoss`, or as a function, `binary_cross_entropy`.
#
# `train` is a loop as you know it. It runs where the model is, on a CPU or on a GPU. `loss_of` gives
# the loss to train on, and the error to show. We train in FP32 first, and then in FP16 with a
# `GradScaler`, both on a CPU. There, autocast casts what goes into `binary_cross_entropy` to FP32. But the
# sigmoid is on no list ([[lesson autocast_ops]]): it gets FP16 logits, and gives FP16.


# %%
def train(model, loss_of, dtype=None, rate=1.0):
    place = next(model.parameters()).device.type
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    log = ScalerLog(torch.amp.GradScaler(place, enabled=dtype == half))
    errors = []
    for step in range(120):
        optimizer.zero_grad()
        with torch.autocast(place, dtype=dtype, enabled=dtype is not None):
            loss, error = loss_of(model, step)
        log.scale(loss).backward()
        log.step(optimizer)
        log.update()
        errors.append(error.item())
    return errors, log


# %%
paper = 1 - pictures.cpu()


def from_probability(model, step):
    p = torch.sigmoid(model(paper))
    return binary_cross_entropy(p, paper), mse_loss(p, paper)


fp32, _ = train(autoencoder(), from_probability, rate=1.5)
print(f"FP32: error per pixel {fp32[0]:.3f} at the start, {fp32[-1]:.3f} at the end")

# %% tags=["question"]
predict("losses_and_ops.bce_painter")

# %%
mixed, log = train(autoencoder(), from_probability, half, rate=1.5)
print(f"lowest error per pixel: FP32 {min(fp32):.3f}, FP16 {min(mixed):.3f}")
plots.scaler_path(log.records, title="FP16: sigmoid, then BCELoss")

# %% [markdown]
# FP16 gets stuck: the scaler skips many steps in a row, until its scale is so small that gradients
# become zero. The fault is in the loss, not in the scale.
#
# ## A large logit, and a black pixel
#
# At the edge, nearly all pages are white, so the painter soon gives such a pixel a large logit.
# What if a page is black there, so that the target is 0? The true loss of this pixel is about as
# large as its logit. Its true gradient is nearly 1, before the division by the number of pixels.
# `BCELoss` cuts its logarithms off at −100.
#
# The table below shows loss and gradient for three logits. The row names the format of the logit, and so
# of the sigmoid. The loss is computed in FP32. The lower half of the table has the form of this
# loss that takes the logit: `BCEWithLogitsLoss`. We begin with FP32: how large a logit can it
# handle?

# %% tags=["question"]
predict("losses_and_ops.bce_in_fp32")

# %%
losses = {
    "sigmoid, then BCELoss": lambda z: binary_cross_entropy(z.sigmoid().float(), torch.zeros(1)),
    "BCEWithLogitsLoss": lambda z: binary_cross_entropy_with_logits(z.float(), torch.zeros(1)),
}
for name, loss_of_logit in losses.items():
    print(f"{name:32} logit 5        logit 10       logit 20")
    for dtype in (torch.float32, half, bfloat):
        row = ""
        for value in (5.0, 10.0, 20.0):
            logit = torch.tensor([value], dtype=dtype, requires_grad=True)
            loss = loss_of_logit(logit)
            loss.backward()
            row += f"{loss.item():6.1f}, {logit.grad.item():<7.2f}"
        print(f"  {dtype!s:15} loss, gradient{row}")

# %% [markdown]
# In FP32, the sigmoid of 20 is rounded to 1. So the loss is cut off at 100, and the gradient is 0
# instead of 1. FP16 and BF16 fail earlier, and the loss that takes logits doesn't fail at all.
#
# ## What does BF16 do?
#
# From a logit of 6.25 on, BF16's sigmoid is exactly 1, and the gradient of a wrong pixel is exactly 0.
# FP16's NaN makes the scaler skip a step. But zero is an ordinary gradient, and nobody notices it.
#
# Now somebody scans one of the 600 pages as a negative: white ink on black paper. The next cells train in
# BF16 with both losses, and in FP16 with the loss that takes logits. They print the average error of all
# pages, and that of the negative. Then they show the first ten pages. The negative is the first.

# %%
paper[0] = pictures[0].cpu()  # the negative


def from_logits(model, step):
    logits = model(paper)
    return binary_cross_entropy_with_logits(logits, paper), mse_loss(logits.sigmoid(), paper)


# %%
runs = {"FP32, BCELoss": (from_probability, None), "BF16, BCELoss": (from_probability, bfloat)}
runs |= {"BF16, from logits": (from_logits, bfloat), "FP16, from logits": (from_logits, half)}
rows = {"original": 1 - paper}  # the ink, because the plot draws 1 in black
for name, (loss_of, dtype) in runs.items():
    model = autoencoder()
    errors, _ = train(model, loss_of, dtype, rate=1.5)
    rows[name] = 1 - model(paper).sigmoid()
    negative = mse_loss(rows[name][0], rows["original"][0]).item()
    print(f"{name:18} error per pixel {errors[-1]:.3f}, of the negative {negative:.2f}")
plots.paintings(rows)

# %% [markdown]
# The average is 0.052 in all four runs. With BF16 and `BCELoss`, only the negative shows that something
# is wrong. A loss that takes the logit never forms the probability, so nothing can be rounded to 1. Use
# `BCEWithLogitsLoss`.
#
# ## Why CUDA refuses BCELoss
#
# On CUDA, autocast refuses `BCELoss` with an error, in FP16 and in BF16. You might blame the
# rounded sigmoid. PyTorch gives another reason: the gradient of the probability. For a target of 1,
# it is −1/p. If p is 6e-6, that is −167,000, too large for FP16.
#
# Would a cast to FP32 in front of the loss help? The next cell tries it on a CPU.

# %%
cases = {"FP32": (torch.float32, False), "FP16": (half, False), "FP16, then .float()": (half, True)}
for name, (dtype, cast) in cases.items():
    p = torch.tensor([6e-6], dtype=dtype, requires_grad=True)
    with torch.autocast("cpu", dtype=half):
        loss = binary_cross_entropy(p.float() if cast else p, torch.ones(1))
    loss.backward()
    print(f"p in {name:20} loss {loss.item():.1f}, gradient of p {p.grad.item():,.0f}")

# %% [markdown]
# It doesn't help. In the backward pass, the gradient of a cast is cast back, so it still ends in
# FP16
# ([documentation](https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy)).
# Keep this in mind for your own losses: a value that fits can have a gradient that doesn't.
#
# ## A vocabulary of 128,000 words
#
# `cross_entropy` takes logits, so it has no such problem. Still, in language models you'll often see
# `cross_entropy(logits.float(), labels)`. Why the cast?
#
# This loss has two halves. A log-softmax computes log p for each word, and `nll_loss` picks that of the
# right word. On CUDA, in PyTorch 2.13, autocast runs `nll_loss` in FP32. `log_softmax` called alone
# runs in FP32. But inside `cross_entropy` it stays in the dtype of the logits, because
# `cross_entropy` asks for that dtype explicitly. With 128,000 words, −log p is about 12 before
# training. BF16 numbers around 12 are 0.06 apart, so the loss of each word is coarse.
#
# What does the cast cost? Take 8 texts of 4,096 words: the logits alone are 8.4 GB in BF16, and 16.8 GB
# in FP32. For the backward pass, autograd keeps the result of the log-softmax, and the input of
# `nll_loss`.

# %% tags=["question"]
predict("losses_and_ops.logits_float_memory")

# %%
from amp_lessons.lessons.experiments import kept_by_cross_entropy

print("kept for the backward pass, computed from shapes and dtypes:")
for place in ("cpu", "cuda"):
    for convert, call in ((False, "logits"), (True, "logits.float()")):
        kept = kept_by_cross_entropy(place, convert=convert, tokens=8 * 4096, words=128_000)
        print(f"{place:4}  cross_entropy of {call:14}  {kept / 1e9:.1f} GB")

# %% [markdown]
# On CUDA `logits` costs more: the log-softmax is kept in BF16, and again in FP32 for `nll_loss`.
# With `.float()`, both keep the same FP32 tensor. (A CPU's autocast casts the logits to FP32
# itself.)
#
# If 16.8 GB are too much, compute last layer and loss in pieces: [[lesson memory]] shows how.
#
# ## Which results fit?
#
# A colleague wants the mean square of FP16 numbers, and writes `(h * h).mean()`. In
# [[lesson autocast_ops]] such squares overflowed. What about PyTorch's own functions? On a CPU, `var` and
# `std` compute in FP64 inside. For `mse_loss`, autocast casts to FP32.
#
# Here `h` has 1,000 values, each of them 600 or −600. So the mean square is 360,000, and the variance is
# about as large.

# %% tags=["question"]
predict("losses_and_ops.which_results_fit")

# %%
h = torch.tensor([600.0, -600.0] * 500).half()
with torch.autocast("cpu", dtype=half):
    results = {
        "(h * h).mean()": (h * h).mean(),
        "h.var()": h.var(),
        "h.std()": h.std(),
        "mse_loss(h, 0)": mse_loss(h, torch.zeros_like(h)),
    }
for name, result in results.items():
    print(f"{name:15} {result.dtype} {result.item():9,.0f}")

# %% [markdown]
# `h.var()` is 360,000, too large for the FP16 in which it is stored. `h.std()` is 600, and fits.
#
# ## One page is blank
#
# In [[lesson autocast_ops]], a norm written by hand failed because its squares were too large. Here
# is the same norm, with squares of 0. It stands in the middle of the painter, behind the layer that
# puts out 16 numbers for each page: its *code*. The norm divides each code by its root mean square.
# Under the root it adds a tiny number, `eps`, so that it doesn't divide by zero.
#
# We're back to the usual pictures, on which 0 is the paper. One of the 600 pages is blank. The layers in
# front of the norm have no bias, so the code of the blank page is all zeros. We run this on a CPU again.


# %%
class RmsNorm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, code):
        mean_square = (code * code).mean(dim=1, keepdim=True)
        return code * (mean_square + self.eps).rsqrt()  # rsqrt(x) is 1 / sqrt(x)


def with_norm(norm):
    first, tanh, second, _, *others = autoencoder()
    first.bias = second.bias = None
    return nn.Sequential(first, tanh, second, norm, *others)


# %%
pages = pictures.cpu().clone()
pages[0] = 0  # blank


def repaint(model, step):
    error = mse_loss(model(pages), pages)
    return error, error


fp32, _ = train(with_norm(RmsNorm(eps=1e-8)), repaint)
mixed, log = train(with_norm(RmsNorm(eps=1e-8)), repaint, half)
print(f"error per pixel after 120 steps: FP32 {fp32[-1]:.3f}, FP16 {mixed[-1]:.3f}")
print(f"FP16: {len(log.skipped_steps)} of 120 steps skipped")

# %% [markdown]
# In FP16, 1e-8 is 0, and so is the mean square of the blank page. `rsqrt(0)` is inf, and the code of zeros
# times inf is NaN. The loss is the mean over all pages, so one blank page makes it NaN, and with it the
# gradients of the weights, which all pages share. A skipped step changes nothing, so the next step meets
# the same NaN.
#
# Zeros like these are common: padding, a masked picture, a row in which ReLU has set everything to
# 0. Until such a row comes, the norm works.
#
# ## Is 1e-6 large enough?
#
# Many models use an eps of 1e-6. FP16 has that number, as a [[term subnormal]] one. So the norm
# divides a blank page's code by 0.001, and the result is 0. The forward pass is safe. (It runs on a
# CPU again, where `rsqrt` of FP16 gives FP16.)
#
# The next cell also tries larger values, the norm with `.float()` in front, and PyTorch's own.

# %% tags=["question"]
predict("losses_and_ops.eps_of_one_millionth")


# %%
class RmsNormInFp32(RmsNorm):
    def forward(self, code):
        return super().forward(code.float())


norms = {f"eps {eps:g}": RmsNorm(eps) for eps in (1e-6, 1e-4, 1e-3)}
norms["FP32 inside"] = RmsNormInFp32(1e-8)
norms["nn.RMSNorm"] = nn.RMSNorm(16, eps=1e-8, elementwise_affine=False)
curves = {"FP32": fp32}
for name, norm in norms.items():
    curves[name], log = train(with_norm(norm), repaint, half)
    print(f"{name:11} {len(log.skipped_steps):3} of 120 steps skipped")
plots.training(curves, title="A blank page, and five norms in FP16", ylabel="error per pixel")

# %% [markdown]
# Up to an eps of 1e-4, every step is skipped, although the loss is finite: the derivative of
# `rsqrt` is inf in FP16. With FP32 inside, even 1e-8 works. PyTorch's `layer_norm`, `group_norm`
# and `rms_norm` compute their statistics in FP32, even if input and output are FP16. (We tried that
# on a CPU, in PyTorch 2.13.) So prefer them to a formula of your own. If you write one, begin with
# `.float()`.
#
# Batch norm updates its running averages in the forward pass, so a step that the scaler skips has
# changed them already ([[lesson training_loops]]).
#
# ## Where does the stream end?
#
# In a transformer or a ResNet, each block adds its output to one tensor: `stream = stream + block(stream)`.
# This tensor is called the residual stream. Many blocks end in a linear layer, and under BF16 autocast
# that puts out BF16. You know that a sum of two dtypes takes the wider one.
#
# Below, a stream begins at 1, and each of 400 blocks adds exactly 1. With exact numbers it ends at 401. BF16
# has no 257, since its numbers above 256 are 2 apart. The stream begins in three ways: with an
# `nn.Embedding`, which gives the dtype of its FP32 weights; with a linear layer; and with a linear layer
# and `.float()`.

# %%
layer = nn.Linear(8, 8)
nn.init.zeros_(layer.weight)
nn.init.ones_(layer.bias)  # so this layer puts out ones
embedding = nn.Embedding.from_pretrained(torch.ones(10, 8))
with torch.autocast("cpu", dtype=bfloat):
    starts = {
        "embedding": embedding(torch.tensor([3])),
        "linear layer": layer(torch.ones(1, 8)),
        "linear layer, then .float()": layer(torch.ones(1, 8)).float(),
    }
    for name, stream in starts.items():
        for _ in range(400):
            stream = stream + layer(stream)
        print(f"{name:27} {stream.dtype!s:14} ends at {stream[0, 0].item():.0f}")

# %% [markdown]
# The first tensor decides. An embedding isn't on autocast's lists, so it gives its FP32 weights, and
# FP32 + BF16 is FP32, 400 times. A linear layer gives BF16, and BF16 + BF16 is BF16. There 256 + 1 is
# 256, so all blocks after the 255th do nothing.
#
# One `.float()` after the first layer keeps the whole stream in FP32, and the blocks' matrix products
# still run in 16 bits. In a real model, no block adds exactly 1. But in BF16, an addition below
# 1/512 of the stream is always lost, and one of up to 1/256 can be.
#
# An FP16 stream would get to 401 here, since FP16 has all whole numbers up to 2,048. Its danger is the
# other end: a stream of 65,520 or more is inf. An FP32 stream avoids both, and takes twice the memory.
#
# But an FP32 stream can't save a block whose own output doesn't fit. In Google's T5, a linear layer
# put out 66,246 ([issue 5651](https://github.com/huggingface/transformers/issues/5651)). Use BF16
# for such a model.
#
# ## Four thousand positions
#
# In attention, each word has two lists of numbers, a *query* and a *key*. The dot product of one
# word's query and another word's key is a *score*. Many language models use *rotary embeddings* to
# tell the attention where a word stands. Take the numbers of a query or a key two by two. Each pair
# is a point in the plane.
#
# This point is rotated by an angle: the position times a frequency. Each pair has its own frequency. For
# the first pair it is 1, so the angles are 0, 1, 2, … up to 4,095. The score should then depend only on
# the distance between the two words.
#
# As in many models, positions and frequencies are multiplied by a matrix product: a column times a
# row.

# %% tags=["question"]
predict("losses_and_ops.rotary_angles")

# %%
from amp_lessons.lessons.experiments import rotated

positions = torch.arange(4096.0)
frequencies = 10_000.0 ** (-torch.arange(0, 64, 2) / 64)  # 32 pairs
exact = positions[:, None] @ frequencies[None, :]
with torch.autocast("cpu", dtype=bfloat):
    angles = positions[:, None] @ frequencies[None, :]
print("different angles of the first pair:", len(angles[:, 0].unique()))

query, key = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
print("position of the key    score in FP32    in the region")
for place in (0, 100, 300, 1000, 4000):
    row = [rotated(query, a[place + 3]) @ rotated(key, a[place]) for a in (exact, angles)]
    print(f"{place:19} {row[0].item():16.2f} {row[1].item():16.2f}")

# %% [markdown]
# Autocast rounds the positions to BF16, so above 256 neighbours share an angle. The scores depend
# on the position, although the distance is always 3. Compute angles in a region with
# `enabled=False`, as Hugging Face's Llama and Gemma do since 2024 ([pull request
# 29285](https://github.com/huggingface/transformers/pull/29285)). There is an image model whose
# positions begin at 65,536, where BF16 numbers are 512 apart. Under autocast, all positions of an
# image became one, and the model painted a single flat color ([pull request
# 13922](https://github.com/huggingface/diffusers/pull/13922)).
#
# ## A backward pass of your own
#
# In an `autograd.Function` you write both halves of an operation yourself, forward and backward. `ctx`
# carries tensors from one half to the other. The Function below is a matrix product. It replaces the one
# in the painter's last linear layer. There `x` is FP16 under autocast, and the weight is FP32.


# %%
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.T, x.T @ gradient


# %% tags=["question"]
predict("losses_and_ops.own_product")


# %%
def learn(product):
    def paint(model, step):
        x, last = model[:-1](pictures), model[-1]
        error = mse_loss(product(x, last.weight.T) + last.bias, pictures)
        return error, error

    return train(autoencoder().to(device), paint, half)[0]


print("x @ weight:", outcome(lambda: learn(torch.matmul)))
print("Product:   ", outcome(lambda: learn(Product.apply)))

# %% [markdown]
# `backward()` runs outside the region, where nobody casts: the FP16 gradient meets the FP32 weight.
#
# ## Two decorators fix it
#
# They stand between `@staticmethod` and `def`, each above its half.


# %%
class Decorated(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type=device)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    @torch.amp.custom_bwd(device_type=device)
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.T, x.T @ gradient


print("Decorated:", outcome(lambda: learn(Decorated.apply)))

# %% [markdown]
# `custom_fwd` notes whether autocast is on, and with which dtype. `custom_bwd` restores that state while
# `backward` runs. Some texts say that they set the precision of an op. Without `cast_inputs` they don't:
#
# | | autocast in `forward` | inputs | autocast in `backward` |
# |---|---|---|---|
# | no decorator | as in the caller | as given | as where `backward()` is called |
# | `custom_fwd` and `custom_bwd` | as in the caller | as given | as in `forward` |
# | `custom_fwd(cast_inputs=torch.float32)` and `custom_bwd`, in a region | off | cast to FP32 | off |
#
# The last row is for code that accepts only FP32, or that would overflow in 16 bits. Outside a region,
# `cast_inputs` does nothing. `device_type` must be the device of your tensors. And you need both
# decorators: `custom_bwd` alone raises an error, because nothing was noted. [[deep losses_and_ops]] tries
# each of these cases. It also puts an op of your own on one of autocast's lists.
#
# ## Recap
#
# 1. Use a loss that takes logits. From a logit of 6.3 in BF16, 8.4 in FP16 and 16.7 in FP32 on, the
#    probability is exactly 1. If the target is 0, the gradient is NaN or 0.
# 2. A value that fits can have a gradient that doesn't, such as −1/p. In the same way, an eps that
#    FP16 can hold may be too small for the gradient.
# 3. PyTorch's layer, group and RMS norm compute in FP32 inside. In a norm of your own, begin with
#    `.float()`.
# 4. A skipped step doesn't take back batch norm's running averages.
# 5. Start the residual stream in FP32, compute angles with autocast off, and put `custom_fwd` and
#    `custom_bwd` on an `autograd.Function`.
#
# ## Three questions

# %% tags=["question"]
ask(
    "losses_and_ops.bceloss_in_bf16",
    "losses_and_ops.fp32_only_kernel",
    "losses_and_ops.changed_by_a_skipped_step",
)

# %% [markdown]
# **Next:** [[exercises losses_and_ops|the exercises]]: stable losses, unit vectors, a safe RMS norm, a
# stream in FP32, and two Functions. Then [[lesson memory]] counts the bytes of a
# training step. Optional: [[deep losses_and_ops]], on Adam in pure FP16, attention scores, buffers, and
# rules for your own ops.
