# %% [markdown]
# # Lesson 16, deeper: Faults, one by one
#
# This notebook is optional: it's for looking things up. It goes through faults of mixed
# precision. It triggers most of them, shows what PyTorch says, and fixes them. The others need
# another version of PyTorch or a GPU, and are cited. The table of [[lesson clinic]] leads to them.
#
# **Time** [[minutes]] minutes to read it through, a minute to look something up. **Needs** [[lesson
# training_loops]] and the lessons before it; no GPU. If you run a part of it, run the four cells
# below first.
#
# The order below is by subject: what the scaler says, runs that say nothing, dtypes that do not
# match, numbers that break, faults around the loop, and the machine.

# %%
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons import op_policy, plots, training_memory
from amp_lessons.amp import training
from amp_lessons.amp.training import models
from amp_lessons.core.messages import said
from amp_lessons.lessons.clinic import Clinic

# %% [markdown]
# Some helpers. `region` is an FP16 region on the CPU. `fresh` makes a layer, its optimizer and a
# scaler. `Watch` sits below autocast and lists each operation that really runs. `said` returns the
# warnings and the error of a call as text. `clinic.read` prints a message, `clinic.notice` a
# symptom, `clinic.fix` a fix; each stops if it doesn't find what it is meant to show.

# %%
half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
GradScaler = torch.amp.GradScaler
clinic, digits = Clinic(), training.load_digits()
layer, x, y = nn.Linear(8, 3), torch.ones(4, 8), torch.zeros(4, 3)


def region(dtype=half, enabled=True):
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def fresh(init_scale=2.0**16):
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu", init_scale)


# %%
class Watch(TorchDispatchMode):
    """Lists each operation that runs: its name, and the dtype of its first tensor."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        dtype = next((a.dtype for a in args if isinstance(a, torch.Tensor)), None)
        self.ops.append((func.overloadpacket.__name__, dtype))
        return func(*args, **(kwargs or {}))

    def count(self, *names, takes=None):
        return sum(name in names and takes in (None, dtype) for name, dtype in self.ops)


# %%
def memory(precision, batch, length=64):
    """The bytes of a training step with Adam, by CUDA's rules, on fake tensors."""
    with torch.device("meta"):  # shapes without data
        network, inputs = models.transformer_encoder(batch=batch, length=length)
    return training_memory(network, *inputs, precision=precision, optimizer="adam", device="cuda")


def saving(batch, length=64):
    """The share of a step's memory that autocast saves; negative where it costs some."""
    return 1 - memory("amp fp16", batch, length).total / memory("fp32", batch, length).total


# %% [markdown]
# ## What the scaler says
#
# ### Pitfall 1: An optimizer without gradients
#
# An optimizer was made for the old head, and then the head was replaced.

# %%
model, optimizer, scaler = fresh()
head = nn.Linear(8, 3)  # the optimizer does not know it
scaler.scale(F.mse_loss(head(x), y)).backward()
clinic.read(1, said(lambda: scaler.step(optimizer)))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
clinic.fix(1, "an optimizer for the new head", works=said(lambda: scaler.step(optimizer)) == "")

# %% [markdown]
# Without a scaler nobody notices: the optimizer passes over parameters that have no gradient.
#
# ### Pitfall 2: An update without a step
#
# A loop leaves out `step` for a bad batch, but not `update`.

# %%
model, optimizer, scaler = fresh()
scaler.scale(F.mse_loss(model(x), y) * torch.nan)
clinic.read(2, said(scaler.update))
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.fix(2, "step and update, or neither", works=said(scaler.update) == "")

# %% [markdown]
# ### Pitfall 3: unscale_ has already been called
#
# One call of `unscale_` stands before the norm is logged, another before the clipping.

# %%
model, optimizer, scaler = fresh()
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.unscale_(optimizer)
clinic.read(3, said(lambda: scaler.unscale_(optimizer)))
limits = (torch.inf, 1.0)  # the first only measures
norms = [nn.utils.clip_grad_norm_(model.parameters(), limit).item() for limit in limits]
scaler.step(optimizer)
works = norms[0] == norms[1] and said(scaler.update) == ""
clinic.fix(3, "once; the log and the clip see the same norm", works=works)

# %% [markdown]
# ### Pitfall 4: unscale_ is being called after step
#
# `update` was forgotten, and the next iteration begins.

# %%
model, optimizer, scaler = fresh()
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.read(4, said(lambda: scaler.unscale_(optimizer)))
scaler.update()
scaler.scale(F.mse_loss(model(x), y)).backward()
works = said(lambda: scaler.unscale_(optimizer)) == ""
clinic.fix(4, "update at the end of each iteration", works=works)

# %% [markdown]
# ### Pitfall 6: FP16 parameters with a scaler
#
# A model was made with `.half()`, and its loop has a scaler.

# %%
for name in ("half", "float"):
    model = getattr(nn.Linear(8, 3), name)()
    optimizer, scaler = torch.optim.SGD(model.parameters()), GradScaler("cpu")
    with region():
        loss = F.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    message = said(lambda s=scaler, o=optimizer: s.step(o))
    if name == "half":
        clinic.read(6, message)
clinic.fix(6, "FP32 parameters under autocast", works=message == "")

# %% [markdown]
# Unless you set its `grad_dtype`, a parameter gets gradients in its own dtype. So FP32 parameters have
# FP32 gradients. More on this error, also with LoRA and `from_pretrained`, in [[lesson grad_scaler]]. There you also find
# `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`.
#
# ### Pitfall 12: lr_scheduler.step before optimizer.step
#
# Your order of calls is right. PyTorch still warns if the very first step was skipped.


# %%
def first_step_skipped(look):
    model, optimizer, scaler = fresh()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    scaler.scale(model(x).sum() * torch.inf).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if not look or scaler.get_scale() >= before:
        scheduler.step()


clinic.read(12, said(lambda: first_step_skipped(look=False)))
works = said(lambda: first_step_skipped(look=True)) == ""
clinic.fix(12, "scheduler.step() only if the scale did not fall", works=works)

# %% [markdown]
# ### Pitfall 15: Closures and LBFGS
#
# LBFGS needs a closure, and the scaler refuses it. (It does so only if the closure comes by name:
# one by position gets through, and is neither scaled nor checked; [[deep grad_scaler]].)

# %%
model, optimizer, scaler = fresh()
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=5)


def closure():
    lbfgs.zero_grad()
    with region(bfloat):
        loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss


scaler.scale(F.mse_loss(model(x), y)).backward()
clinic.read(15, said(lambda: scaler.step(lbfgs, closure=closure)))
works = lbfgs.step(closure) > closure()
clinic.fix(15, "BF16 and no scaler: the loss falls", works=bool(works))

# %% [markdown]
# ## Runs that say nothing
#
# ### Pitfall 5: The loss is frozen
#
# Ten steps under one autocast, then the same with a disabled region around the loop.


# %%
def ten_losses(around):
    model, optimizer, _ = fresh()
    losses = []
    with around:
        for _ in range(10):
            optimizer.zero_grad()
            with region(bfloat):
                loss = F.mse_loss(model(x), y + 1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# %%
frozen, each = ten_losses(region(bfloat)), ten_losses(nullcontext())
clinic.notice(5, "ten times the same loss", present=len(set(frozen)) == 1)
off = ten_losses(region(enabled=False))
for name, losses in {"one region": frozen, "a disabled one": off, "one each": each}.items():
    print(f"{name}: the loss goes from {losses[0]:.2f} to {losses[-1]:.2f}")
clinic.fix(5, "a region for each forward pass", works=each[-1] < frozen[0] / 2)

# %%
plots.curves(
    {"one region": frozen, "one each": each},
    title="A loss that stands still, and no error",
    xlabel="step",
    ylabel="loss",
    alt="Two curves of ten losses: under one region for the whole loop it is a flat line; "
    "with a region for each forward pass the loss falls to a small part.",
)

# %% [markdown]
# The casts of the first forward pass stay in the cache until the *outermost* region ends. The
# weights move, but the cached copies of them don't. Parameters that autocast doesn't cast, such as
# a layer norm's, go on learning, so with them the loss can still fall. A disabled region counts as
# a region: `enabled=False` around a loop that opens its own regions freezes it all the same. All of
# this is about eager mode: what `torch.compile` has compiled doesn't use the cache.
#
# ### Pitfall 14: Clipped before unscale_
#
# `max_norm` is 1, and the true norm is below that. So clipping should change nothing. (Adam hides
# this mistake while the divided gradients stay far above its eps of 1e-8: it divides by their size.)


# %%
def clipped(unscale_first):
    model, optimizer, scaler = fresh()
    before = model.weight.detach().clone()
    scaler.scale(F.mse_loss(model(x), y)).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    scaler.step(optimizer)
    return norm, (model.weight - before).norm().item()


(wrong, hardly), (norm, moved) = clipped(False), clipped(True)
clinic.notice(14, f"the norm is {wrong / norm:.0f} times the true one", present=wrong > 10_000)
clinic.fix(14, "unscale_, clip, step", works=moved > 1000 * hardly)

# %% [markdown]
# ### Pitfall 16: Accumulation without division
#
# Four micro-batches with a mean loss, compared with the whole batch.


# %%
def accumulated(parts, divide):
    model, optimizer, scaler = fresh()
    rows = torch.arange(64.0).view(8, 8) / 64
    for part in rows.chunk(parts):
        loss = model(part).square().mean()
        scaler.scale(loss / parts if divide else loss).backward()
    scaler.unscale_(optimizer)
    return model.weight.grad.norm().item()


whole = accumulated(1, True)
ratio = accumulated(4, False) / whole
clinic.notice(16, f"a gradient {ratio:.2f} times too large", present=ratio > 3.9)
clinic.fix(16, "each loss divided by 4", works=abs(accumulated(4, True) / whole - 1) < 1e-4)

# %% [markdown]
# ### Pitfall 17: Two optimizers and two updates
#
# The first model overflows, and `update` halves the scale before the second one steps.


# %%
def second_gradient(two_updates):
    (first, one, scaler), (second, two, _) = fresh(), fresh()
    scaler.scale(first(x).sum() * torch.inf).backward()
    scaler.scale(second(x).sum()).backward()
    scaler.step(one)
    if two_updates:
        scaler.update()
    scaler.step(two)
    scaler.update()
    return second.weight.grad[0, 0].item()


wrong, right = second_gradient(True), second_gradient(False)
clinic.notice(17, f"{wrong / right:.0f} times the gradient", present=wrong == 2 * right)
clinic.fix(17, "one update, last", works=right == 4.0)

# %% [markdown]
# (Four rows of ones: the gradient is 4.) It was scaled by 65536 and divided by 32768.
#
# ### Pitfall 30: Trained in one precision, evaluated in another
#
# A model overflows in FP16, the precision of its training and of its serving. The validation runs
# in FP32.

# %%
model, _, _ = fresh()
scores = {}
for name, enabled in (("FP32", False), ("FP16", True)):
    with torch.no_grad(), region(enabled=enabled):
        scores[name] = F.mse_loss(model(x * 1e6), y)
print("validation loss:", {name: f"{score:.1e}" for name, score in scores.items()})
clinic.notice(30, "the validation does not see the overflow", present=scores["FP32"] < torch.inf)
clinic.fix(30, "validate in the precision of training", works=not scores["FP16"].isfinite())

# %% [markdown]
# ## Dtypes that do not match
#
# ### Pitfall 8: Expected the same dtype
#
# The features come out of a region, and the head is called after it.

# %%
head = nn.Linear(3, 2)
with region():
    features = layer(x)
clinic.read(8, said(lambda: head(features)))
clinic.fix(8, ".float() on what leaves the region", works=head(features.float()).dtype is single)

# %% [markdown]
# Cast the tensor and not the head: a head in FP16 would have FP16 gradients (pitfall 6). The
# wording differs between ops and versions; look for "same dtype", "expected scalar type", "should
# be the same" (a convolution) or "does not match" (an LSTM).
#
# ### Pitfall 9: scatter and index_copy_ refuse
#
# Inside the region, features are written into an FP32 buffer. Autocast doesn't help there.

# %%
rows = torch.arange(4)
with region():
    features, buffer = layer(x), torch.zeros(4, 3)
    clinic.read(9, said(lambda: buffer.scatter(0, rows.view(4, 1), features)))
    clinic.read(9, said(lambda: buffer.index_copy_(0, rows, features)))
    done = buffer.index_copy_(0, rows, features.to(buffer.dtype))
clinic.fix(9, ".to() the buffer's dtype", works=done.dtype is single)

# %% [markdown]
# ### Pitfall 10: A custom Function without its decorators
#
# Its forward runs in the region. Its backward finds an FP16 gradient and an FP32 weight.


# %%
class Product(torch.autograd.Function):
    """x @ w, as one writes it for FP32."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.T, x.T @ grad


class Decorated(Product):
    """The same, with autocast's state carried over to the backward pass."""

    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type="cpu"))


# %%
def backward_of(function):
    weight = torch.ones(8, 3, requires_grad=True)
    with region():
        loss = function.apply(x.clone().requires_grad_(), weight).float().sum()
    loss.backward()
    return weight.grad


clinic.read(10, said(lambda: backward_of(Product)))
clinic.fix(10, "custom_fwd and custom_bwd", works=backward_of(Decorated).dtype is single)

# %% [markdown]
# ### Pitfall 20: A mask of minus 1e9
#
# Scores in FP16 get a mask of −1e9.

# %%
scores, mask = torch.zeros(3, dtype=half), torch.tensor([False, False, True])
clinic.read(20, said(lambda: scores.masked_fill(mask, -1e9)))
lowest = torch.finfo(scores.dtype).min
weights = scores.masked_fill(mask, lowest).softmax(0)
print("lowest", lowest, " weights", weights.tolist())
clinic.fix(20, "torch.finfo(scores.dtype).min", works=weights[2].item() == 0)

# %% [markdown]
# ### Pitfall 29: NumPy has no bfloat16
#
# `.tolist()` and `.item()` take BF16, and `.numpy()` doesn't.

# %%
values = torch.ones(1, dtype=bfloat)
print("tolist", values.tolist(), " item", values.item())
clinic.read(29, said(values.numpy))
clinic.fix(29, ".float().numpy()", works=values.float().numpy().dtype == "float32")

# %% [markdown]
# ## Numbers that break
#
# ### Pitfall 11: BCELoss under autocast
#
# CUDA and XPU raise; a CPU computes. `op_policy` asks CUDA's rules on fake tensors and gets the
# real message. Here the logit is 10 and the target 0, so the true gradient is about 1.

# %%
clinic.read(11, op_policy("binary_cross_entropy", "cuda").note)
logit, target = torch.tensor([10.0], dtype=half, requires_grad=True), torch.zeros(1)
with region():
    through_sigmoid = F.binary_cross_entropy(logit.sigmoid(), target)
    with_logits = F.binary_cross_entropy_with_logits(logit, target)
(wrong,) = torch.autograd.grad(through_sigmoid, logit)
(right,) = torch.autograd.grad(with_logits, logit)
print("through the sigmoid", wrong.item(), " with logits", right.item())
clinic.fix(11, "binary_cross_entropy_with_logits", works=right.item() == 1)

# %% [markdown]
# CUDA refuses it because its gradient can be larger than FP16's largest number. Casting the input
# to FP32 doesn't help, since the backward pass casts the gradient back.
#
# ### Pitfall 13: The scale sinks to nothing
#
# A network that was trained in BF16 may have features beyond 65504. The scaler can only halve its
# scale; BF16 holds such features.


# %%
def thirty_steps(dtype):
    model, optimizer, scaler = fresh()
    for _ in range(30):
        optimizer.zero_grad()
        with region(dtype):
            loss = (model(x * 1e6) / 1e6).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale(), loss.item()


scale, loss = thirty_steps(half)
clinic.notice(13, f"a scale of {scale:.2g}, a loss of {loss}", present=scale < 1)
scale, loss = thirty_steps(bfloat)
clinic.fix(13, f"BF16: a scale of {scale:.0f}, a loss of {loss:.2g}", works=loss < torch.inf)

# %% [markdown]
# If the loss is inf before `scale`, look at the forward pass. The scaler isn't the cause.
#
# ### Pitfall 18: Adam in pure FP16 divides by zero
#
# Two weights of 1, with gradients of 1e-4 and of 0. A plain Adam makes one step, and a fused one
# (`fused=True`) makes 1 and then 20.


# %%
def adam(dtype, steps=1, fused=False):
    weight = torch.ones(2, dtype=dtype, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.25, fused=fused)
    weight.grad = torch.tensor([1e-4, 0.0], dtype=dtype)
    for _ in range(steps):
        optimizer.step()
    return weight.detach()


eps, squared = torch.tensor(1e-8).half().item(), torch.tensor(1e-4).half().square().item()
print("in FP16: eps", eps, " squared gradient", squared)
clinic.notice(18, str(adam(half).tolist()), present=not adam(half).isfinite().any())
for steps in (1, 20):
    fp16, fp32 = (adam(dtype, steps, fused=True)[0].item() for dtype in (half, single))
    print(f"fused, step {steps}: the first weight in FP16 {fp16:.2f}, in FP32 {fp32:.2f}")
works = (adam(single) - torch.tensor([0.75, 1.0])).abs().max().item() < 1e-3
clinic.fix(18, "FP32 parameters and states", works=works)

# %% [markdown]
# In a plain Adam a small gradient is divided by $\sqrt{0} + 0$, which gives inf. A gradient of 0 gives
# 0/0, which is NaN. A fused Adam computes in FP32, so its first step comes out right. But it stores
# its averages in FP16, and the average of the squares is 0 there. So its later steps are too long.
#
# ### Pitfall 19: log of p plus 1e-8
#
# The entropy of probabilities in FP16 of which one is 0. The 1e-8 is 0 in FP16 as well.

# %%
logits = torch.tensor([20.0, 0.0, -20.0], dtype=half)
p = logits.softmax(0)
entropy = -(p * (p + 1e-8).log()).sum()
clinic.notice(19, f"an entropy of {entropy.item()}", present=bool(entropy.isnan()))
log_p = logits.log_softmax(0)
stable = -(log_p.exp() * log_p).sum()
clinic.fix(19, "log_softmax", works=bool(stable.isfinite()))

# %% [markdown]
# ### Pitfall 21: BatchNorm in half precision
#
# Features of some 60,000 fit in FP16. Their variance doesn't: it is about 3e9. So the running
# variance of an FP16 model becomes inf.


# %%
def evaluated(norm, features):
    with region():
        norm.train()(features)
        return norm.running_var.item(), norm.eval()(features).flatten().tolist()


features = torch.tensor([[60000.0], [-60000.0], [30000.0]], dtype=half)
variance, output = evaluated(nn.BatchNorm1d(1).half(), features)
clinic.notice(21, f"variance {variance}, outputs {output}", present=not any(output))
variance, output = evaluated(nn.BatchNorm1d(1), features)
clinic.fix(21, "statistics in FP32", works=variance > 65504 and all(output))

# %% [markdown]
# BatchNorm is on none of autocast's lists, on a CPU or on CUDA: its output has the dtype of its
# input. Under autocast it works because its parameters and statistics stay in FP32.
#
# ## Around the loop
#
# ### Pitfall 7: Gradients missing after a no_grad pass
#
# In older versions a cast made under `no_grad` stayed in the cache, without a history, and the next
# pass in the same region had no gradient. The next cell tries it with this version.

# %%
model, _, _ = fresh()
with region():
    with torch.no_grad():
        model(x)
    output = model(x)
print("the output's history:", output.grad_fn.name())
clinic.cite(7)

# %% [markdown]
# It works in 2.13, where a cast is made with its history whether gradients are on or not
# ([165068](https://github.com/pytorch/pytorch/pull/165068)). With an older version give the pass
# under `no_grad` a region of its own.
#
# ### Pitfall 22: RMSNorm has another dtype than before
#
# The rules of this version, for FP16 input:

# %%
print("on CUDA:", op_policy("rms_norm", "cuda").low, " on a CPU:", op_policy("rms_norm", "cpu").low)
clinic.cite(22)

# %% [markdown]
# Until 2.11 it was FP16 on CUDA too. When you rely on such a behaviour, write a test for it, and
# name the version and the device.
#
# ### Pitfall 26: Recomputed in another dtype
#
# A hand-made checkpoint, as in [[lesson compile_and_checkpoint]]: the backward pass computes the layer once
# more. The region is closed by then.


# %%
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        again = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.layer(again)
        torch.autograd.backward(output, grad)
        return None, again.grad


# %%
def fp32_products(run):
    model, _, _ = fresh()
    with region():
        loss = run(model, x.clone().requires_grad_()).float().sum()
    with Watch() as watch:
        loss.backward()
    return watch.count("addmm", "mm", takes=single)


found = fp32_products(Recompute.apply)
clinic.notice(26, f"{found} products of the backward pass in FP32", present=found > 0)
clinic.fix(
    26, "torch.utils.checkpoint", works=fp32_products(partial(checkpoint, use_reentrant=False)) == 0
)

# %% [markdown]
# The backward pass runs outside the region. So the gradient belongs to an FP32 forward pass, and
# the loss that you saw to an FP16 one. If you have to write such a Function, `custom_fwd` and
# `custom_bwd` restore the region, as [[lesson compile_and_checkpoint]] shows.
#
# ### Pitfall 27: A compiled backward ignores an inner region
#
# The last layer is kept in FP32, as for a number that FP16 cannot hold. Its gradient is 65536 in
# eager mode.


# %%
class KeepsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
        nn.init.ones_(self.first.weight)

    def forward(self, x):
        hidden = self.first(x)
        with region(enabled=False):
            return self.last(hidden.float())


def last_gradient(model, call):
    with region():
        output = call(torch.ones(1, 4))
    model.zero_grad()
    (output * 16384).sum().backward()
    return model.last.weight.grad[0, 0].item()


# %%
from torch._functorch import config as settings

model = KeepsLast()
print("eager", last_gradient(model, model))
found = last_gradient(model, torch.compile(model, backend="aot_eager"))
clinic.notice(27, f"{found} in a compiled backward", present=found == torch.inf)
torch.compiler.reset()
with settings.patch(backward_pass_autocast="off"):
    found = last_gradient(model, torch.compile(model, backend="aot_eager"))
clinic.fix(27, f"{found} with backward_pass_autocast off", works=found == 65536)

# %% [markdown]
# The default of 2.13, and still of 2.15.0, is `"same_as_forward"`. The
# [documentation](https://docs.pytorch.org/docs/2.13/user_guide/torch_compiler/torch.compiler_backward.html)
# warns of it. To make it `"off"` has been proposed
# ([177287](https://github.com/pytorch/pytorch/pull/177287)). Set it yourself where your backward
# pass stands outside autocast; [[lesson compile_and_checkpoint]] shows when the setting is read, and a second
# cure.
#
# ## The machine
#
# ### Pitfall 23: No speed-up
#
# Only a GPU can show it; [[lesson speed]] explains how to measure. One cause can be counted
# anywhere. Autocast adds operations to a step.


# %%
def operations(enabled):
    with Watch() as watch, region(enabled=enabled):
        loss = F.cross_entropy(network(rows).float(), labels)
        torch.autograd.grad(loss, list(network.parameters()))
    return len(watch.ops)


network, rows, labels = training.digits_network(), digits.train_images[:8], digits.train_labels[:8]
print("operations:", operations(False), "in FP32,", operations(True), "under autocast")
clinic.cite(23)

# %% [markdown]
# On a GPU each added cast is a kernel launch. If a step waits for launches, autocast makes it
# *slower*. Other causes: the step waits for the data loader, TF32 is on already, the GPU has no
# tensor cores for the dtype, or sizes are not multiples of 8. [[Lesson speed]] explains how to find
# out.
#
# ### Pitfall 24: Memory unchanged
#
# A small transformer and one sequence of 16 tokens a step, counted without a GPU ([[lesson
# memory]]).

# %%
plain = memory("fp32", 1, length=16)
print(f"weights, gradients and Adam's averages: {plain.model_states / plain.total:.0%} in FP32")
found = saving(1, length=16)
clinic.notice(24, f"{found:.0%} saved", present=found < 0.05)
clinic.fix(24, f"16 sequences of 64: {saving(16):.0%} saved", works=saving(16) > 0.3)

# %% [markdown]
# Weights, gradients and Adam's averages stay as they are. If they fill your memory, autocast can't
# help. Look at the optimizer's state, at sharding ([[lesson ranks]]) or at smaller
# parameters.
#
# ### Pitfall 25: Autocast on a CPU is slow
#
# Ten forward passes of a layer, with a region for each. We count products and casts.


# %%
def products_and_casts(model, x, enabled):
    with Watch() as watch, torch.no_grad():
        for _ in range(10):
            with region(bfloat, enabled=enabled):
                model(x)
    return watch.count("addmm"), watch.count("_to_copy", "to")


fp32, autocast = (products_and_casts(layer, x, enabled) for enabled in (False, True))
print("FP32:", fp32, " autocast:", autocast)
clinic.notice(25, "casts are added", present=autocast[1] > fp32[1])
cast_once = products_and_casts(nn.Linear(8, 3).bfloat16(), x.bfloat16(), False)
clinic.fix(25, f"BF16, cast once: {cast_once}; or FP32", works=cast_once == fp32)

# %% [markdown]
# Autocast keeps FP32 weights for training, so each step pays for the casts. For serving, cast once.
# Whether the product itself is faster in 16 bits depends on this machine's instructions. The next
# cell times it.

# %% tags=["live"]
from torch.utils.benchmark import Timer

print("this CPU:", torch.backends.cpu.get_cpu_capability())
for dtype in (single, bfloat, half):
    a = torch.randn(128, 128).to(dtype)
    time = Timer("a @ a", globals={"a": a}).blocked_autorange(min_run_time=0.2).median
    print(f"{dtype!s:15} {time * 1e6:8.1f} µs")

# %% [markdown]
# ### Pitfall 28: The scaler on MPS needs float64
#
# Apple's GPUs have no float64, and before 2.8 `unscale_` took the inverse of the scale in it.

# %%
clinic.cite(28)

# %% [markdown]
# "Cannot convert a MPS Tensor to float64 dtype" ([issue
# 142397](https://github.com/pytorch/pytorch/issues/142397)). The cure is a newer version; not
# measured here.
#
# Back to [[lesson clinic]], or to its [[exercises clinic]].
