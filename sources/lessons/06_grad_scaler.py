# %% [markdown]
# # Lesson 06: GradScaler
#
# **You will be able to** say what each call of a GradScaler does, follow its scale by hand, find
# out which steps were skipped and why, and place clipping and schedules in the right order.
#
# **Time** 45 minutes. **Needs** lessons [[lesson amp_from_scratch|03]] to [[lesson autocast_regions|05]]; no GPU.
#
# In FP16 small gradients become zero ([[lesson how_numbers_break]]). Loss scaling multiplies the loss by a large
# number, and by the chain rule every gradient with it; before the weights move, it is divided out
# again. `torch.amp.GradScaler` does that and looks for the right number while you train. With
# `"cpu"` it works on any machine: all that happens here is real.

# %%
import math
import warnings
from unittest import mock

import torch
from torch import nn

from amp_lessons import plots
from amp_lessons.scaler_log import ScalerLog, simulate_scaler
from amp_lessons.training import digits_network, load_digits

half, bfloat = torch.float16, torch.bfloat16
GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## Four calls
#
# One weight of 3, one loss, w squared: the gradient is 6. The scale begins at 65536. **Predict:**
# what stands in `weight.grad` after the backward pass, after `unscale_` and after `step`? Where in
# this is the weight updated with a scaled gradient?

# %%
weight = torch.tensor(3.0, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu")

scaled_loss = scaler.scale(weight**2)
print("scale    loss", scaled_loss.item())
scaled_loss.backward()
print("backward grad", weight.grad.item())
scaler.unscale_(optimizer)
print("unscale_ grad", weight.grad.item())
scaler.step(optimizer)
print("step     grad", weight.grad.item(), " weight", round(weight.item(), 6))
scaler.update()
print("update   scale", scaler.get_scale())

# %% [markdown]
# Nowhere. The one thing that is scaled is the backward pass. `step` unscales, unless you have done
# so yourself; it looks whether every gradient is finite; then it calls `optimizer.step()`, or does
# not. The comment "scaled optimizer step", found beside this call in many tutorials, is wrong in
# both halves: nothing in the step is scaled, and there may be no step.
#
# ## A skipped step
#
# Now one of two gradients overflows. **Predict:** which of these change: the weight whose gradient
# overflowed, the weight whose gradient is fine, Adam's averages, the scale?

# %%
weights = torch.tensor([3.0, 5.0], requires_grad=True)
optimizer = torch.optim.Adam([weights], lr=0.1)
scaler = GradScaler("cpu")
for overflow in (False, True):
    optimizer.zero_grad()
    scaler.scale((weights**2).sum()).backward()
    if overflow:
        weights.grad[0] = math.inf
    scaler.step(optimizer)
    scaler.update()
    average = optimizer.state[weights]["exp_avg"].tolist()
    print([round(w, 4) for w in weights.tolist()], [round(a, 4) for a in average], end=" ")
    print("Adam's step", optimizer.state[weights]["step"].item(), "scale", scaler.get_scale())

# %% [markdown]
# Only the scale. One bad number anywhere in the optimizer's gradients, inf or NaN, and the whole
# step is left out: no weight moves, no average is spoiled, Adam does not even count it. Then
# `update` halves the scale, so that the next backward pass has more room.
#
# ## The state machine
#
# `update` knows two numbers: the scale, and how many clean steps there were in a row.
#
# | what the step had | scale | counter |
# |---|---|---|
# | an inf or a NaN | times `backoff_factor` (0.5) | back to 0 |
# | none, and the counter reaches `growth_interval` (2000) | times `growth_factor` (2) | back to 0 |
# | none otherwise | stays | plus 1 |
#
# It starts at `init_scale`, 65536. **Predict:** with a scale of 4, an interval of 2 and overflows
# in steps 5 and 6 (counted from 0), what is the scale after each of twelve steps?


# %%
def play(scaler, overflows):
    """The scale after each update, when these steps overflow."""
    weight = torch.ones(2, requires_grad=True)
    optimizer, scales = torch.optim.SGD([weight], lr=0.1), []
    for overflow in overflows:
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        weight.grad[0] = math.inf if overflow else 0.0
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


overflows = [step in (5, 6) for step in range(12)]
print(play(GradScaler("cpu", init_scale=4.0, growth_interval=2), overflows))
print(simulate_scaler(overflows, init_scale=4.0, growth_interval=2))

# %% [markdown]
# The second line comes from `simulate_scaler`, a dozen lines with no scaler in them; you write your
# own in the exercises.
#
# Here is the same scaler to play with. Set a pattern of overflows, and predict the next scale
# before it is shown.
#
# - Which pattern of twelve steps, with as few overflows as possible, never lets the scale grow?
# - Interval 3, one overflow: does it matter for the last scale in which step it happens?

# %% tags=["live"]
from amp_lessons.widgets import ScalerLab

ScalerLab(overflows, init_scale=4.0, growth_interval=2)

# %% [markdown]
# Simulator and scaler agree to the last bit, also at the ends. **Predict:** how many skips
# in a row bring the scale from 65536 below 1? And how far down, and up, does it go?

# %%
down = play(GradScaler("cpu"), [True] * 170)
print("skips until it is below 1: ", 1 + sum(scale >= 1 for scale in down))
print("skips until it is 0:       ", 1 + sum(scale > 0 for scale in down))
up = play(GradScaler("cpu", init_scale=2.0**120, growth_interval=1), [False] * 12)
print("growing from 2^120:        ", [int(math.log2(scale)) for scale in up])
print("the simulator says the same:", simulate_scaler([True] * 170) == down)

# %% [markdown]
# There is no floor. A scale below 1 makes gradients *smaller* before they are stored; a run that
# gets there has most often a fault that no scale can mend (below). Upwards, a growth that would
# not fit in float32 is left out.
#
# Is a scale of 0 at least harmless? **Predict:** the overflows are over, and a good batch comes.
# Is the step skipped? What is the weight after it?

# %%
for init_scale in (2.0**-127, 2.0**-128, 0.0):
    weight = torch.tensor(3.0, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    log = ScalerLog(GradScaler("cpu", init_scale=init_scale))
    log.scale(weight**2).backward()
    grad = weight.grad.item()
    log.step(optimizer)
    log.update()
    print(f"1/scale {1 / log.scaler._scale:.3g}: grad {grad:.3g}", end=", ")
    print(f"skipped {bool(log.skipped_steps)}, weight {weight.item():.4g}")

# %% [markdown]
# The weight is lost. The scaler looks at the *scaled* gradient, which is finite, so the step is
# made; then unscaling multiplies by 1 / scale, which is infinite from $2^{-128}$ on. Stop a run
# long before that: a scale below 1 is reason enough to look.
#
# ## Why powers of two
#
# **Predict:** scale ten thousand float32 gradients by 65536 and unscale them: how many have changed
# in their last bits? And with a scale of 1000?

# %%
torch.manual_seed(0)
gradients = torch.randn(10_000)
for scale in (65536.0, 1000.0):
    values = gradients.clone().requires_grad_()
    scaler = GradScaler("cpu", init_scale=scale)
    scaler.scale((values * gradients).sum()).backward()  # the gradient of this is `gradients`
    scaler.unscale_(torch.optim.SGD([values]))
    changed = (values.grad != gradients).sum().item()
    print(f"scale {scale:7.0f}: some changed: {changed > 0}, most changed: {changed > 5000}")

# %% [markdown]
# A power of two moves the exponent and leaves the other bits alone, both ways. 1000 rounds twice.
# So with the default settings loss scaling costs no precision, as long as nothing leaves the range.
# Keep your own settings to powers of two.
#
# ## A real run
#
# The digits network under FP16 autocast, with the *sum* of the losses of 128 images: its gradients
# are large. `ScalerLog` (in this course's package) wraps the scaler and keeps a record of each
# `update`. The interval is 9, so that something happens in 60 steps. **Predict:** what happens in
# the very first steps?

# %%
digits = load_digits()
images, labels = digits.train_images[:128], digits.train_labels[:128]
network = digits_network()
optimizer = torch.optim.SGD(network.parameters(), lr=5e-4)
log = ScalerLog(GradScaler("cpu", growth_interval=9))
for _ in range(60):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=half):
        loss = nn.functional.cross_entropy(network(images), labels, reduction="sum")
    log.scale(loss).backward()
    log.step(optimizer)
    log.update()
print("skipped:", log.skipped_steps)
print("scales: ", sorted({int(math.log2(record.scale)) for record in log.records}))

# %%
plots.scaler_path(log.records, title="The scale looks for the edge, and stays near it")

# %% [markdown]
# The first four steps are skipped. That is calibration and no fault: 65536 was too much for these
# gradients, and the scaler needed four steps to find that out. Later each growth tries a larger
# scale; where that overflows, one step is lost and the scale goes back. With the default interval
# such a trial costs one step in about 2000.

# %% [markdown]
# ## Was my step skipped?
#
# A common question, asked in PyTorch's issues
# [55585](https://github.com/pytorch/pytorch/issues/55585) and
# [67590](https://github.com/pytorch/pytorch/issues/67590), and there is no method that answers it.
# **Predict:** which of these two tell a skipped step from a real one: what `step` returns, or the
# scale before and after `update`?

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu", growth_interval=2)
for overflow in (False, False, True):
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    weight.grad[0] = math.inf if overflow else 1.0
    before = scaler.get_scale()
    result = scaler.step(optimizer)
    between = scaler.get_scale()
    scaler.update()
    print(f"overflow {overflow}: step returns {result}, scale {before} {between}", end=" ")
    print(scaler.get_scale(), "skipped" if scaler.get_scale() < before else "")

# %% [markdown]
# `step` returns what the optimizer's step returns, which is None without a closure. The scale
# tells, but only after `update`, and only if it *fell*: a scale that changed may have grown. (Where
# the scale is 0 or inf it cannot fall any more, and with several optimizers it tells that one of
# them was skipped, not which. `ScalerLog` asks the scaler's own record, which has no public name.)
#
# Schedulers need the answer. **Predict:** what does PyTorch say if the very first step is skipped
# and the scheduler steps all the same?

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
scaler = GradScaler("cpu")
scaler.scale(weight.sum() * math.inf).backward()
scaler.step(optimizer)
scaler.update()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scheduler.step()
print(str(caught[0].message).split(". ")[0])
print("learning rate", scheduler.get_last_lr()[0], "after no step at all")

# %% [markdown]
# The warning blames your order of calls, which was right; the optimizer was never called. And it
# comes only if the first step is skipped: later the schedule runs ahead of the training in silence.
# The mend is an `if`: step the scheduler only where the scale did not fall.
#
# ## What goes wrong: six mistakes and their messages
#
# Each is a mistake that people make in a loop. **Predict:** what stops a loop in which the loss was
# never scaled? And the same loop with a disabled scaler?


# %%
def attempt(*calls, scaled=True, enabled=True, grad=True):
    """Make these calls of a scaler after a backward pass; print the last one's error."""
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight if grad else torch.ones(2, requires_grad=True)])
    scaler = GradScaler("cpu", enabled=enabled)
    (scaler.scale(weight.sum()) if scaled else weight.sum()).backward()
    try:
        for call in calls:
            getattr(scaler, call)(*([] if call == "update" else [optimizer]))
    except (AssertionError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


print("not scaled:    ", attempt("step", scaled=False))
print("same, disabled:", attempt("step", scaled=False, enabled=False))
print("no gradient:   ", attempt("step", grad=False))

# %%
print("update without step:      ", attempt("update"))
print("unscale_ twice:           ", attempt("unscale_", "unscale_"))
print("unscale_ after step:      ", attempt("step", "unscale_"))
print("step twice:               ", attempt("step", "step"))
print("unscale_, step, update:   ", attempt("unscale_", "step", "update"))

# %% [markdown]
# `loss.backward()` without `scaler.scale` in the first iteration is the AssertionError about
# `_scale is None`: the scaler makes its scale when it is first used. In a later iteration there is
# no error at all: the gradients, never scaled, are divided by 65536, and under SGD the model stands
# still. With a *disabled* scaler there is nothing to complain about.
#
# "No inf checks were recorded" means that the scaler saw no gradient: the optimizer holds other
# parameters than the loss, or all are frozen, or nothing called `step`. The messages with "already"
# and "after step" mean that an `update` is missing, or that `unscale_` stands inside the
# accumulation loop and not behind it.
#
# ## What it accepts
#
# **Predict:** will it unscale the gradients of a model in FP16 (`model.half()`)? In BF16? And what
# becomes of a closure, by name and by position?

# %%
for dtype in (half, bfloat):
    weight = torch.ones(2, dtype=dtype, requires_grad=True)
    scaler = GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    try:
        scaler.unscale_(torch.optim.SGD([weight], lr=0.1))
        print(dtype, "gradients:", weight.grad.tolist())
    except ValueError as error:
        print(dtype, "gradients: ValueError:", error)

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu")
scaler.scale(weight.sum()).backward()
try:
    scaler.step(optimizer, closure=lambda: 7.0)
except RuntimeError as error:
    print("by name:    ", error)
print("by position:", scaler.step(optimizer, lambda: 7.0), "and no error")

# %% [markdown]
# FP16 parameters are the usual cause of "Attempting to unscale FP16 gradients": under autocast the
# parameters stay in float32, and so do their gradients. Do not call `.half()`. BF16 gradients are
# let through, though they do not need it.
#
# A closure runs forward and backward again, behind the scaler's back. Named, it is refused; by
# position it slips through in 2.13, and what it computes is neither scaled nor checked. LBFGS,
# which cannot do without a closure, does not go with a scaler.
#
# ## On and off
#
# `GradScaler()` means `GradScaler("cuda")`. **Predict:** what does it do on a machine with no CUDA?
# (The first two lines make every machine look like one.)

# %%
with (
    mock.patch("torch.cuda.is_available", return_value=False),
    warnings.catch_warnings(record=True) as caught,
):
    warnings.simplefilter("always")
    scaler = GradScaler()
print(caught[0].message)
print("enabled", scaler.is_enabled(), " scale", scaler.get_scale(), " state", scaler.state_dict())
loss = torch.tensor(2.0)
print("the loss comes back as it is:", scaler.scale(loss) is loss)

# %% [markdown]
# It warns and becomes a no-op: `scale` gives the loss back, `step` calls the optimizer, `update`
# does nothing. A script whose `device` falls back to the CPU, with `GradScaler("cuda")` beside it,
# trains FP16 with no scaling there. Give the scaler the device that you use.
#
# The same no-op is useful on purpose: one loop for three precisions. **Predict:** for which of the
# three is the scaler enabled? And what does a disabled scaler do with a NaN?

# %%
for dtype in (torch.float32, bfloat, half):
    scaler = GradScaler("cpu", enabled=dtype is half)
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.sum() * math.nan).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"{dtype!s:14} enabled {scaler.is_enabled()!s:5} weight after a NaN: {weight.item()}")

# %% [markdown]
# Scaling is for FP16. BF16 has the exponents of FP32, and so the same smallest normal number.
# "Always use GradScaler" is a rule for FP16 alone. But note the other side: with the scaler goes
# the look for inf and NaN, and a bad batch goes straight into the weights. In BF16 and FP32 you
# look yourself: the norm that `clip_grad_norm_` returns is not finite if any gradient is not.
#
# **Predict:** with the loss of the digits multiplied by 1e-6, in which of these four is every
# gradient zero?

# %%
for name, dtype, scale in (
    ("FP32", None, 1.0), ("BF16", bfloat, 1.0), ("FP16", half, 1.0), ("FP16 scaled", half, 2.0**24),
):  # fmt: skip
    network = digits_network()
    with torch.autocast("cpu", dtype=dtype or half, enabled=dtype is not None):
        loss = nn.functional.cross_entropy(network(images), labels)
    (loss * 1e-6 * scale).backward()
    zero = [bool((p.grad == 0).all()) for p in network.parameters()]
    print(f"{name:12} every gradient is zero: {all(zero)}")

# %% [markdown]
# ## Clip after unscale_
#
# `max_norm` speaks of the true gradients. **Predict:** a network has a gradient norm of about 0.2,
# and a limit of 1 should leave it alone. What does `clip_grad_norm_` see, and how far does the
# model move, if it comes before `unscale_`? (The scale is 4096.)


# %%
def clipped_step(unscale_first, clip=nn.utils.clip_grad_norm_, overflow=False):
    network, scaler = digits_network(), GradScaler("cpu", init_scale=2.0**12)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    start = nn.utils.parameters_to_vector(network.parameters()).detach()
    scaler.scale(nn.functional.cross_entropy(network(images), labels)).backward()
    if overflow:
        network[0].weight.grad[0, 0] = math.inf
    if unscale_first:
        scaler.unscale_(optimizer)
    norm = clip(network.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    moved = (nn.utils.parameters_to_vector(network.parameters()) - start).norm()
    return norm, moved.item(), scaler.get_scale() < 2.0**12


for first in (True, False):
    norm, moved, _ = clipped_step(first)
    print(f"unscale_ first {first!s:5} norm over 100: {norm.item() > 100!s:5}", end="  ")
    print(f"moved more than 0.1: {moved > 0.1}")

# %% [markdown]
# Clipped too early, the norm is 4096 times too large, the gradients are cut to a norm of 1 and
# *then* divided by 4096: the model hardly moves. (Adam hides it: it divides a constant factor out
# again, so the model moves, and every single step is clipped.)
#
# There is a worse order. **Predict:** with `clip_grad_value_`, which cuts each number to ±1, what
# becomes of an inf?

# %%
for first in (True, False):
    _, moved, skipped = clipped_step(first, nn.utils.clip_grad_value_, overflow=True)
    print(f"unscale_ first {first!s:5} skipped {skipped!s:5} moved {moved > 0}")

# %% [markdown]
# Cut to 1, the inf is gone before the scaler looks: an overflow goes into the weights unseen.
# `unscale_` first is right for both reasons, since it is `unscale_` that looks.

# %% [markdown]
# ## A gradient that stays: no zero_grad
#
# A loop from a widely read tutorial: scale, backward, step, update, and no `zero_grad`. In FP32
# that is merely wrong. **Predict:** with a scaler, what happens after one single overflow?

# %%
weight = torch.tensor([3.0, 5.0], requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
log = ScalerLog(GradScaler("cpu"))
for step in range(20):
    scaled = log.scale((weight**2).sum())
    scaled.backward()
    if step == 2:
        weight.grad[0] = math.inf
    log.step(optimizer)
    log.update()
    if step in (1, 2, 19):
        shown = [round(w, 4) for w in weight.tolist()]
        print(f"step {step:2}: weights {shown} grad[0] {weight.grad[0].item():.4g}", end=" ")
        print("scale", log.get_scale())

# %% [markdown]
# inf plus any finite number is inf: it stands in `.grad` for ever, every step is skipped, the
# weights and the loss stand still, and the scale sinks towards 0. No message comes.
# `optimizer.zero_grad()` belongs into every step.

# %% [markdown]
# ## An overflow that no scale can mend
#
# A scale acts on the backward pass. **Predict:** here the last layer gives numbers of 90000, beyond
# FP16. After 20 steps, how many were skipped, and what is the scale?

# %%
layer = nn.Linear(3, 1, bias=False)
nn.init.constant_(layer.weight, 300.0)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
log = ScalerLog(GradScaler("cpu"))
for _ in range(20):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=half):
        loss = nn.functional.mse_loss(layer(torch.full((4, 3), 100.0)), torch.zeros(4, 1))
    log.scale(loss).backward()
    log.step(optimizer)
    log.update()
print("loss", loss.item(), " skipped", len(log.skipped_steps), "of 20  scale", log.get_scale())

# %% [markdown]
# The loss is inf before any scaling, so every step is skipped, whatever the scale, and the scaler
# blames the scale each time. PyTorch's
# [documentation](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.update) warns
# of a scale below 1, and names one cause: a model that was pretrained in BF16 and runs in FP16.
# Others are a bad number in the data, one left in `.grad`, and a backward pass that is infinite by
# itself. Look at the loss first. And look for *large* numbers: underflow gives zeros and a loss
# that stands still; NaN comes from overflow, from 0/0, or from an inf such as the logarithm of 0.

# %% [markdown]
# ## The price of the question
#
# To decide about a step, Python has to know whether there was an inf: `step` calls `.item()`, and
# on a GPU that waits until the backward pass is done. A *fused* optimizer (`fused=True`) makes the
# whole update of many weights in one kernel; it takes the scale and the record of inf, which
# PyTorch calls `found_inf`, as tensors and decides inside. **Predict:** three steps, the second
# with an overflow: how many times is `optimizer.step` called, and how many numbers does the scaler
# read? (A hook, here, is a function that PyTorch calls after each `optimizer.step`.)


# %%
def count_reads(reads):
    """Within this context each call of `tensor.item()` is noted."""
    item = torch.Tensor.item
    return mock.patch.object(torch.Tensor, "item", lambda t: reads.append(1) or item(t))


# %%
for fused in (False, True):
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=fused)
    scaler, calls, reads, path = GradScaler("cpu"), [], [], []
    optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append(1))
    with count_reads(reads):
        for overflow in (False, True, False):
            optimizer.zero_grad()
            scaler.scale(weight.sum()).backward()
            weight.grad[0] += math.inf if overflow else 0.0
            scaler.step(optimizer)
            scaler.update()
            path.append(round(weight.tolist()[1], 1))
    print(f"fused {fused!s:5} optimizer.step: {len(calls)}, .item(): {len(reads)}, {path}")

# %% [markdown]
# The weights are the same: the fused kernel leaves them alone after an overflow, too. But its
# `step` *is* called each time, so such a hook counts real steps only where the optimizer is not
# fused, and the scheduler's warning does not come either. The scale still falls, so asking the
# scale works with both.

# %% [markdown]
# ## The loop, put together
#
# What the usual tutorials show, put right: `torch.amp` (`torch.cuda.amp.GradScaler` is deprecated
# since 2.4), one variable that names the device twice, `zero_grad`, a forward region only, unscale
# before clipping, one update, a scheduler that follows the real steps. The same code trains FP16,
# BF16 and FP32.
#
# **Predict:** which dtype has the loss in each of the three?


# %%
def train(network, batches, device="cpu", dtype=torch.float16, max_norm=1.0):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype, enabled=dtype is not torch.float32):
            loss = nn.functional.cross_entropy(network(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(network.parameters(), max_norm)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
    return loss


# %%
for dtype in (torch.float32, bfloat, half):
    torch.manual_seed(0)
    loss = train(digits_network(), [(images, labels)] * 20, dtype=dtype)
    print(f"{dtype!s:14} loss {loss.dtype}, at most half of the first: {loss.item() < 1.15}")

# %% [markdown]
# ## Myths, tested
#
# | said | shown above |
# |---|---|
# | "`scaler.step` is a scaled optimizer step" | it unscales, checks, and perhaps steps |
# | "the error is that the loss was not scaled" | `AssertionError: Attempted step but _scale is None`, in the first iteration only; none with a disabled scaler |
# | "always use GradScaler" | FP16 only; it cannot mend an overflow in the forward pass |
# | "NaN comes from underflow" | underflow gives zeros; look for overflow |
# | "the first steps are skipped, so something is broken" | calibration |
# | a loop with no `zero_grad` | one overflow ends the training |
# | a device that falls back to the CPU beside `GradScaler("cuda")` | a no-op scaler there |
#
# ## Recap
#
# 1. `scale` multiplies the loss, `unscale_` divides the gradients and looks for inf and NaN, `step`
#    steps only if there is none, `update` adapts the scale.
# 2. The scale halves after a skip and doubles after 2000 clean steps in a row; it has no floor, and
#    stops at $2^{127}$.
# 3. A step was skipped if the scale fell at `update`; schedulers follow real steps only.
# 4. `zero_grad` in every step; `unscale_` before clipping; one `update`, last.
# 5. It is for FP16, for gradients, and for nothing else: a scale that sinks below 1 means that the
#    fault most likely lies elsewhere.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "grad_scaler.three_skips_then_none",
    "grad_scaler.overflow_at_1999",
    "grad_scaler.scale_falls_loss_inf",
)

# %% [markdown]
# **Next:** [[exercises grad_scaler|six exercises]]: your own GradScaler, a log of skips,
# the scale predicted, a schedule, clipping, and the causes of a sinking scale. Then [[lesson training_loops]]: real
# training loops.
