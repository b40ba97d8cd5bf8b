# %% [markdown]
# # Lesson 12: Myths, tested, and the clinic
#
# **You will be able to** put any sentence about AMP to the test in a few lines, say where it holds
# and where it does not, and take a run that is ill from its message or symptom to cause and cure.
#
# **Time** 120 minutes. **Needs** lessons [[lesson amp_in_20_minutes|00]] to [[lesson training_loops|07]]; lessons [[lesson losses_and_ops|08]] to [[lesson past_one_gpu|11]] explain more of some cases. No
# GPU.
#
# Part one takes 36 claims from four pages that people find when they search for AMP: an interview
# question, a quiz, a guide and a benchmark. They are told in our words, and chosen because they are
# doubtful; sentences that nobody doubts are tested, too, at the end of the part. The numbers follow
# the pages, the order follows the subject. Part two is the clinic: 30 pitfalls, triggered, read and
# mended. Each part ends with a table of links, so you can also come here with a question.

# %%
import inspect
import warnings
from contextlib import nullcontext
from functools import partial
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons import models, plots, training
from amp_lessons.clinic import Clinic
from amp_lessons.fakes.modes import autocast_on
from amp_lessons.messages import said
from amp_lessons.myths import Trials, verdict_of
from amp_lessons.policy import counts, op_policy, policy_table
from amp_lessons.scaler_log import ScalerLog
from amp_lessons.trace import explain_autocast

# %% [markdown]
# Four helpers for both parts. `region` is an FP16 region on the CPU. `fresh` makes a layer, its
# optimizer and a scaler. `Watch` stands below autocast and lists each operation that really runs.
# `said` (in the package) returns the warnings and the error of a call as text.

# %%
half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
GradScaler = torch.amp.GradScaler
trials, clinic = Trials(), Clinic()
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


# %% [markdown]
# # Part one: the myths
#
# `trials.test` is told for each case whether the claim holds there. It prints that, and the verdict
# that follows: *true* if the claim holds in every case, *false* if in none, *true only when …*
# otherwise. Where the verdict is not the one that the table at the end gives, it stops.
#
# ## The API
#
# ### Myth 1: The CUDA autocast takes a device type
#
# The interview page imports `autocast` from `torch.cuda.amp` and gives it `device_type="cuda"`.
# **Predict:** does the snippet run on a machine with a GPU?

# %%
snippet = said(lambda: torch.cuda.amp.autocast(device_type="cuda", dtype=half))
print(snippet.splitlines()[-1])
print("torch.autocast takes it:", said(lambda: torch.autocast(device_type="cpu", dtype=half)) == "")
trials.test(1, {"torch.cuda.amp.autocast(device_type=…)": "TypeError" not in snippet})

# %% [markdown]
# Nowhere, with a GPU or without: `torch.cuda.amp.autocast` is made for CUDA and takes no device.
#
# ### Myth 2: AMP is imported from torch.cuda.amp
#
# Three of the four pages do. **Predict:** how many of these three names are still current?

# %%
old = torch.cuda.amp
calls = {
    "autocast": lambda: old.autocast(),
    "GradScaler": lambda: old.GradScaler(),
    "custom_fwd": lambda: old.custom_fwd(len),
}
cases = {f"{name} is current": "FutureWarning" not in said(call) for name, call in calls.items()}
trials.test(2, cases)

# %% [markdown]
# They import and warn. Write `torch.autocast(device_type, dtype)`, `torch.amp.GradScaler(device)`
# and `torch.amp.custom_fwd(device_type=…)`: the same code for every device.
#
# ### Myth 7: Printing the type of the loss shows its precision
#
# The quiz prints `type(loss)` to ask for the dtype. **Predict:** what does it print for a loss in
# FP32, and for one in FP16?

# %%
one, other = torch.tensor(1.0), torch.tensor(1.0, dtype=half)
print(type(one), type(other), one.dtype, other.dtype)
trials.test(7, {"type() tells FP32 from FP16": type(one) is not type(other)})

# %% [markdown]
# ### Myth 29: The TF32 switch speeds AMP up
#
# The guide's last advice is `allow_tf32 = True`, for extra speed beside AMP. TF32 is a way to
# compute products of FP32 operands. **Predict:** in which of these two does such a product run?


# %%
def has_fp32_product(enabled):
    with Watch() as watch, region(enabled=enabled):
        layer(x)
    return watch.count("addmm", takes=single) > 0


print("today's name is there:", hasattr(torch.backends.cuda.matmul, "fp32_precision"))
cases = {"a layer under autocast": has_fp32_product(True)}
trials.test(29, cases | {"a layer in a disabled region": has_fp32_product(False)})

# %% [markdown]
# What autocast has cast to 16 bits has nothing left for TF32. For the rest set
# `torch.backends.cuda.matmul.fp32_precision = "tf32"`, and do not mix it with the old flags.
#
# ### Myth 30: custom_fwd is a precision rule
#
# The guide's table calls it a rule for the forward's precision. **Predict:** which of these three
# changes the dtype in which a custom product runs in a region?


# %%
def product(*decorators):
    """The dtype that a custom Function gives in an FP16 region."""

    def forward(ctx, a, b):
        return a @ b

    for decorate in decorators:
        forward = decorate(forward)
    function = type("Product", (torch.autograd.Function,), {"forward": staticmethod(forward)})
    with region():
        return function.apply(x, layer.weight.T).dtype


# %%
alone = torch.amp.custom_fwd(device_type="cpu")
with_cast = torch.amp.custom_fwd(device_type="cpu", cast_inputs=single)
print("undecorated:", product())
cases = {"custom_fwd alone": product(alone) != product()}
trials.test(30, cases | {"custom_fwd with cast_inputs": product(with_cast) != product()})

# %% [markdown]
# Alone it notes the region's state, so that `custom_bwd` can restore it in the backward pass. That
# is worth having (pitfall 10). Only `cast_inputs` says something about precision: it casts the
# inputs and switches autocast off inside.
#
# ### Myth 32: Call reset_max_memory_allocated before a measurement
#
# So does the benchmark, and what it needs is a fresh maximum. **Predict:** is that name current?
# And is the maximum all that it resets?

# %%
with mock.patch("torch.cuda.memory.reset_peak_memory_stats") as resets_all:
    warned = said(torch.cuda.reset_max_memory_allocated)
cases = {"the name is current": "FutureWarning" not in warned}
trials.test(32, cases | {"it resets that maximum alone": not resets_all.called})

# %% [markdown]
# It works, and warns. Write `torch.cuda.reset_peak_memory_stats()`, which is what it calls.
#
# ### Myth 35: A device variable makes the script run anywhere
#
# The benchmark sets `device` to the CPU where there is no GPU, and then writes `.cuda()` and
# `GradScaler("cuda")`. `.cuda()` stops there with an error. **Predict:** what do autocast and the
# scaler do? (The first line makes every machine look like one without CUDA.)

# %%
with mock.patch("torch.cuda.is_available", return_value=False), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.autocast(device, dtype=half):
        casts = layer(x).dtype is half
    scales = GradScaler("cuda").is_enabled()
trials.test(35, {"autocast(device)": casts, 'GradScaler("cuda")': scales})

# %% [markdown]
# Autocast follows the variable; the scaler warns and then does nothing. Mend only the error, and
# FP16 is trained with no scaling.
#
# ### Myth 36: set_to_none makes zero_grad faster
#
# So says a comment in the benchmark. **Predict:** what does a gradient hold after `zero_grad()`,
# and after `zero_grad(set_to_none=True)`?

# %%
left = []
for options in ({}, {"set_to_none": True}):
    model, optimizer, _ = fresh()
    model(x).sum().backward()
    optimizer.zero_grad(**options)
    left.append(model.weight.grad)
print(left)
trials.test(36, {"the two leave something different": left[0] is not left[1]})

# %% [markdown]
# ## What autocast does
#
# ### Myth 3: Autocast runs most operations in FP16
#
# "Operations" can be counted in three ways. **Predict:** do more than half go to 16 bits, of the
# operations in this course's policy table? Of those that the forward pass of a transformer runs? Of
# its FLOPs? (All are asked of CUDA's rules; [[lesson autocast_ops]] shows how that works without a GPU.)

# %%
table = policy_table("cuda", half)
lower = counts(table)["lower precision"]
network, words = models.transformer_encoder()
trace = explain_autocast(network, *words)
low = sum(row.dtype_out == "float16" for row in trace.rows)
cast = sum(bool(row.casts) for row in trace.rows)
print(f"rules: {lower / len(table):.0%} cast down")
print(f"{len(trace.rows)} ops ran, {low} gave FP16, {cast} of them behind a cast")
cases = {"of the rules": lower > len(table) / 2, "of the ops that ran": low > len(trace.rows) / 2}
trials.test(3, cases | {"of the FLOPs": trace.totals.share_16bit > 0.5})

# %% [markdown]
# A short list is cast down: products, convolutions, attention. They are nearly all the work (the
# FLOPs counted are theirs), and most other ops go on in the FP16 that they get from them.
#
# ### Myth 4: AMP keeps a master copy of the weights
#
# **Predict:** after a step under autocast, does the optimizer hold the weight a second time, in
# FP32? And in the recipe of [[lesson amp_from_scratch]], where the model itself is FP16?


# %%
def holds_a_copy(model, optimizer):
    """Whether the optimizer has another FP32 tensor with the weight's values."""
    held = [t for state in optimizer.state.values() for t in state.values()]
    held += [p for group in optimizer.param_groups for p in group["params"]]
    others = [t for t in held if t is not model.weight and t.dtype is single]
    return any(torch.equal(t.to(model.weight.dtype), model.weight) for t in others)


model, half_model = nn.Linear(8, 3), nn.Linear(8, 3).half()
optimizer = torch.optim.AdamW(model.parameters())
with region(bfloat):
    loss = F.mse_loss(model(x), y)
loss.backward()
optimizer.step()
masters = [p.detach().float() for p in half_model.parameters()]
print("lesson 03's recipe:", holds_a_copy(half_model, torch.optim.SGD(masters, lr=0.1)))
trials.test(4, {"with torch.autocast": holds_a_copy(model, optimizer)})

# %% [markdown]
# Master weights belong to the recipe of the [paper](https://arxiv.org/abs/1710.03740), where the
# model itself is FP16. With `torch.autocast` it is the other way round: the parameters *are* the
# FP32 weights, and the 16-bit copies live as long as the region and the graph.
#
# ### Myth 5: BF16 has no underflow risk
#
# **Predict:** does BF16 hold a gradient of $2^{-120}$? And what is $1 - 2^{-10}$, a weight that
# moves by a thousandth, if the weight is stored in BF16?

# %%
gradient = torch.tensor(2.0**-120).bfloat16()
weight = torch.tensor(1.0, dtype=bfloat)
moved = weight - 2.0**-10
print("gradient", gradient.item(), " weight", moved.item())
kept = {"a gradient far below FP16's range": gradient.item() > 0}
trials.test(5, kept | {"the update of a weight stored in BF16": moved.item() != 1})

# %% [markdown]
# The exponent is FP32's, so gradients survive, and the page is right that no scaler is needed. But
# the digits are few: what is *stored* in BF16 stalls. Under autocast weights are stored in FP32.
#
# ### Myth 8: The loss is kept in FP32 under autocast
#
# **Predict:** the same loss, up to the target, written in two ways. Which dtype has each?

# %%
with region():
    output = layer(x)
    losses = {
        "mse_loss": F.mse_loss(output, y),
        "(output * output).mean()": (output * output).mean(),
    }
trials.test(8, {name: loss.dtype is single for name, loss in losses.items()})

# %% [markdown]
# There is no rule about losses. There is a list of ops, and `mse_loss` is on it; `mul` and `mean`
# are not, on a CPU or on CUDA, and give what they get.
#
# ### Myth 12: Mixed precision means FP16 and FP32
#
# The guide never mentions BF16. **Predict:** which dtype does a region have if you name none?

# %%
defaults = {f'autocast("{name}")': torch.get_autocast_dtype(name) for name in ("cuda", "cpu")}
print(defaults)
trials.test(12, {name: dtype is half for name, dtype in defaults.items()})

# %% [markdown]
# ### Myth 20: Autocast mends dtype mismatches
#
# An error about an expected dtype? The guide's advice is to leave dtypes to autocast.
# **Predict:** an FP16 tensor meets FP32 in four ways. Which does autocast mend?

# %%
with region():
    leaked = layer(x).detach()
weight, rows = torch.ones(3, 2), torch.arange(4)
attempts = {
    "a product": lambda: leaked @ weight,
    "in place": lambda: torch.zeros(4, 3).index_copy_(0, rows, leaked),
    "into out=": lambda: torch.mm(leaked, weight, out=torch.zeros(4, 2)),
}
with region():
    mended = {name: said(attempt) == "" for name, attempt in attempts.items()}
trials.test(20, mended | {"a product after the region": said(attempts["a product"]) == ""})

# %% [markdown]
# Most such errors come from where autocast does not act: outside the region, in place, with `out=`,
# and in ops on none of its lists that want one dtype, such as `scatter` (pitfall 9).
#
# ### Myth 21: Softmax and reductions run in FP32
#
# **Predict:** for which of these does FP16 input give an FP32 result?

# %%
asked = [("softmax", "cuda"), ("sum", "cuda"), ("mean", "cuda"), ("var", "cuda"), ("std", "cuda")]
asked += [("softmax", "cpu"), ("sum", "cpu")]
trials.test(21, {f"{op}, {device}": op_policy(op, device).low is single for op, device in asked})

# %% [markdown]
# ### Myth 24: An op without FP16 support rules AMP out
#
# **Predict:** `torch.logdet` knows no FP16. Which of these two ways gets it through a region?


# %%
class LogDet(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=single)
    def forward(ctx, a):
        return torch.logdet(a)


with region():
    gram = torch.eye(3) @ torch.eye(3)
    print("as it is:", said(lambda: torch.logdet(gram)))
    with region(enabled=False):
        by_region = said(lambda: torch.logdet(gram.float()))
    by_cast = said(lambda: LogDet.apply(gram))
cases = {"with a disabled region": by_region != "", "with cast_inputs": by_cast != ""}
trials.test(24, cases)

# %% [markdown]
# Both: a disabled region and a `.float()`, or a Function whose `custom_fwd` does these two things
# for you.
#
# ## Scaling
#
# ### Myth 6: A forward pass under BF16 is BF16 training
#
# The page's second half shows a BF16 region with a forward pass, and no more. (What the page says
# of Volta's tensor cores is right for FP16; those for BF16 came with
# [Ampere](https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/).)
# **Predict:** have the weights moved after three of its iterations? And with a backward pass and a
# step?


# %%
def moved(complete):
    model, optimizer, _ = fresh()
    before = model.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        with region(bfloat):
            loss = F.mse_loss(model(x), y)
        if complete:
            loss.backward()
            optimizer.step()
    return not torch.equal(before, model.weight)


print("with a backward pass and a step:", moved(complete=True))
trials.test(6, {"a forward pass trains": moved(complete=False)})

# %% [markdown]
# ### Myth 9: A loss that was not scaled raises an error
#
# The quiz asks which error `loss.backward()` without `scaler.scale` gives, and does not name it.
# **Predict:** in which of these three does anything raise?


# %%
def unscaled_step(scaled_before=False, enabled=True):
    model, optimizer, _ = fresh()
    scaler = GradScaler("cpu", enabled=enabled)
    if scaled_before:
        scaler.scale(torch.ones(()))
    F.mse_loss(model(x), y).backward()
    return said(lambda: scaler.step(optimizer))


print(unscaled_step().split(".")[0])
cases = {"the first iteration": unscaled_step() != ""}
cases["a later iteration"] = unscaled_step(scaled_before=True) != ""
trials.test(9, cases | {"a disabled scaler": unscaled_step(enabled=False) != ""})

# %% [markdown]
# It is `scaler.step` that raises, and only if its scaler was never used. The silent case is the
# dangerous one: later on the gradients, never scaled, are divided by 65536.
#
# ### Myth 10: Only the optimizer step belongs outside autocast
#
# The quiz asks what does not belong inside, and its answer names the optimizer's step.
# **Predict:** one layer is kept in FP32 on purpose. Does its gradient stay the same when
# `backward()` moves into the region? And do the new weights, when `step()` moves in?


# %%
def gradient_of_fp32_part(backward_inside):
    torch.manual_seed(0)
    first, last = nn.Linear(16, 32), nn.Linear(32, 4)
    data = torch.randn(64, 16)
    with region(bfloat):
        hidden = first(data).tanh()
        with region(enabled=False):
            loss = last(hidden.float()).square().mean()
    with region(bfloat, enabled=backward_inside):
        loss.backward()
    return last.weight.grad


# %%
def weights_after(step_inside):
    model, _, _ = fresh()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    F.mse_loss(model(x), y).backward()
    with region(bfloat, enabled=step_inside):
        optimizer.step()
    return model.weight


same = torch.equal(gradient_of_fp32_part(False), gradient_of_fp32_part(True))
cases = {"backward may stand inside": same}
same = torch.equal(weights_after(False), weights_after(True))
trials.test(10, cases | {"a step of Adam inside does harm": not same})

# %% [markdown]
# The other way round: Adam's `step()` has nothing that autocast would cast, and `backward()` has. A
# few optimizers multiply matrices in their step ([[lesson autocast_regions]]). Keep both outside.
#
# ### Myth 14: The basic FP16 loop needs no scaler
#
# The guide's first loop has autocast and no scaler. **Predict:** a loss near 1, and the same loss
# with a weight of $2^{-30}$, as one of many losses may have. Where does a gradient arrive?


# %%
def gradient_arrives(factor, dtype=half, scale=1.0):
    model, _, _ = fresh()
    with region(dtype):
        loss = F.mse_loss(model(x), y)
    (loss * factor * scale).backward()
    return bool(model.weight.grad.any())


small = 2.0**-30
trials.test(14, {"a loss near 1": gradient_arrives(1.0), "times 2^-30": gradient_arrives(small)})

# %% [markdown]
# ### Myth 22: Autocast scales the gradients
#
# The guide lists gradient scaling among the things that AMP does by itself. **Predict:** the small
# loss once more, with autocast alone and with a scale.

# %%
scaler = GradScaler("cpu")
scale = scaler.scale(torch.ones(())).item()
cases = {"autocast alone": gradient_arrives(small)}
trials.test(22, cases | {"with a GradScaler": gradient_arrives(small, scale=scale)})

# %% [markdown]
# ### Myth 27: Always use a GradScaler
#
# **Predict:** in which of these three does a scaler help: small gradients in FP16, small gradients
# in BF16, a forward pass that overflows in FP16?

# %%
helps = {}
for name, dtype in {"small gradients, FP16": half, "small gradients, BF16": bfloat}.items():
    without, with_scale = gradient_arrives(small, dtype), gradient_arrives(small, dtype, scale)
    helps[name] = with_scale and not without
model, optimizer, scaler = fresh()
for _ in range(20):
    optimizer.zero_grad()
    with region():
        loss = F.mse_loss(model(x * 1e6), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("an overflow in the forward pass: the scale after 20 steps is", scaler.get_scale())
trials.test(27, helps | {"an overflow in the forward pass": scaler.get_scale() >= 1})

# %% [markdown]
# BF16 needs no help. Against an overflow in the forward pass the scaler can only halve its scale,
# 20 times here: the loss is not finite before any scaling. Pitfall 13 mends it.
#
# ### Myth 28: Skipped steps mean that the scaling is broken
#
# The guide takes a NaN for a sign that the scale is at fault. **Predict:** the digits, with the
# *sum* of the losses of 128 images and a new scaler: which steps of 100 are skipped? Does it learn?


# %%
digits = training.load_digits()
network = training.digits_network()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
log, losses = ScalerLog(GradScaler("cpu")), []
for _ in range(100):
    optimizer.zero_grad()
    with region():
        output = network(digits.train_images[:128])
        loss = F.cross_entropy(output, digits.train_labels[:128], reduction="sum")
    log.scale(loss).backward()
    log.step(optimizer)
    log.update()
    losses.append(loss.item())

# %%
skipped = [i for i, record in enumerate(log.records) if record.skipped]
print("skipped:", skipped)
trials.test(28, {"it does not learn": losses[-1] > 0.8 * losses[0]})

# %%
plots.scaler_path(log.records, title="Skips at the start: the scaler finds its scale")

# %% [markdown]
# ### Myth 15: Scale, step and update make a whole loop
#
# The guide's loop with a scaler has these three and no `zero_grad`. **Predict:** after one
# overflow, in the second of eight steps, which of the later steps are real?

# %%
model, optimizer, scaler = fresh()
log = ScalerLog(scaler)
for step in range(8):
    log.scale(F.mse_loss(model(x), y)).backward()
    if step == 1:
        model.weight.grad[0, 0] = torch.inf
    log.step(optimizer)
    log.update()
print("skipped:", [i for i, record in enumerate(log.records) if record.skipped])
trials.test(15, {"it recovers from an overflow": not log.records[-1].skipped})

# %% [markdown]
# ### Myth 16: The scaler makes a scaled optimizer step
#
# A comment beside `scaler.step`. **Predict:** one weight, a gradient of 6, a learning rate of 0.1
# and a scale of 65536. How far does the weight move? And after an overflow?


# %%
def move(overflow):
    weight = torch.tensor(3.0, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=0.1), GradScaler("cpu")
    scaler.scale(weight**2).backward()
    if overflow:
        weight.grad.fill_(torch.inf)
    scaler.step(optimizer)
    return round(3.0 - weight.item(), 6)


print("moved", move(False), "and after an overflow", move(True))
trials.test(16, {"the step is scaled": move(False) > 1, "after an overflow": move(True) != 0})

# %% [markdown]
# ### Myth 19: NaN in the loss comes from underflow
#
# The guide's cause is gradients that underflow. **Predict:** the digits with a loss of a millionth,
# in FP16 with no scaler, where nearly every gradient is 0 ([[lesson how_numbers_break]]): do the losses become NaN?
# And what else does?

# %%
run = training.train_digits("fp16 unscaled", 30, loss_factor=1e-6)
tiny, huge = torch.tensor(2.0**-24, dtype=half), torch.tensor(60000.0, dtype=half)
zero = tiny * tiny
print("overflow, inf − inf:", (2 * huge - 2 * huge).item(), " 0 · inf:", (zero * (2 * huge)).item())
cases = {
    "gradients underflow": bool(torch.tensor(run.losses).isnan().any()),
    "p underflows, then p log p": bool((zero * zero.log()).isnan()),
    "both underflow, then a / b": bool((zero / zero).isnan()),
}
trials.test(19, cases)

# %% [markdown]
# A gradient that underflows is 0, and the loss stands still. For a NaN look for *large* numbers
# first, and then for a logarithm or a quotient that gets a 0 (pitfalls 18 and 19).
#
# ## Inference and devices
#
# ### Myth 17: Autocast and inference_mode are all it takes to serve
#
# The guide's `predict` has `inference_mode` and autocast, and no `eval()`. **Predict:** how many
# casts do ten calls of one layer make? How many if the model is cast to FP16 once? And does dropout
# drop?


# %%
def casts_in_ten_calls(model, x):
    with Watch() as watch, torch.inference_mode():
        for _ in range(10):
            with region():
                model(x)
    return watch.count("_to_copy", "to")


print("FP32 model:", casts_in_ten_calls(nn.Linear(8, 3), x))
print("FP16 model:", casts_in_ten_calls(nn.Linear(8, 3).half(), x.half()))
with torch.inference_mode(), region():
    dropped = nn.Dropout(0.5)(torch.ones(1000)).count_nonzero().item() < 1000
few = casts_in_ten_calls(nn.Linear(8, 3), x) == 0
trials.test(17, {"weights are not cast again": few, "dropout is off": not dropped})

# %% [markdown]
# Weight, bias and input are cast in each call. For serving, cast the model once (`model.half()` or
# `.bfloat16()`), call `eval()`, and compare its answers with those of the model that you trained.
#
# ### Myth 18: CPU tensors under CUDA autocast raise an error
#
# "Operation not permitted" is said to come from tensors that are not on the GPU. **Predict:** a CPU
# layer in a *CUDA* region: an error, FP16 or FP32? (`autocast_on` opens CUDA's region here, too.)

# %%
with autocast_on("cuda", half, enabled=True):
    print(torch.is_autocast_enabled("cuda"), layer(x).dtype)
    trials.test(18, {"a CPU layer in a CUDA region": said(lambda: layer(x)) != ""})

# %% [markdown]
# A region concerns one device type. Tensors of two devices in *one* op raise with autocast or
# without.
#
# ### Myth 23: AMP needs an NVIDIA GPU of capability 7
#
# The lessons before this one run autocast and a real scaler on a CPU. **Predict:** for which of
# these device types does PyTorch have no autocast?

# %%
kinds = ("cpu", "xpu", "mps")
print("one for vulkan:", torch.amp.is_autocast_available("vulkan"))
trials.test(23, {f"none for {kind}": not torch.amp.is_autocast_available(kind) for kind in kinds})

# %% [markdown]
# Capability 7.0 is where NVIDIA's tensor cores begin, so it is where *speed* in FP16 begins. "cuda"
# also means AMD's GPUs under ROCm.
#
# ## Memory
#
# `training_memory` ([[lesson memory]]) counts the bytes of a training step part by part, on fake tensors.
# Here it counts a small transformer under Adam, by CUDA's rules.


# %%
from amp_lessons.memory import training_memory


def memory(precision, batch, length=64):
    with torch.device("meta"):  # shapes without data
        network, inputs = models.transformer_encoder(batch=batch, length=length)
    return training_memory(network, *inputs, precision=precision, optimizer="adam", device="cuda")


def saving(batch, length=64):
    """The share of a step's memory that autocast saves; negative where it costs some."""
    return 1 - memory("amp fp16", batch, length).total / memory("fp32", batch, length).total


# %% [markdown]
# ### Myth 13: AMP makes the model smaller
#
# **Predict:** of parameters, gradients, Adam's averages (the optimizer) and activations, which
# shrink under autocast?

# %%
plain, mixed = memory("fp32", 16), memory("amp fp16", 16)
parts = ("parameters", "gradients", "optimizer", "activations")
trials.test(13, {part: getattr(mixed, part) < getattr(plain, part) for part in parts})

# %% [markdown]
# ### Myth 25: AMP saves 30 to 50 per cent of the memory
#
# **Predict:** is the saving in that range for 16 sequences of 64? And for one sequence of 16?

# %%
many, few = saving(16), saving(1, length=16)
print(f"saved: {many:.0%} and {few:.0%}")
trials.test(25, {"16 sequences of 64": 0.3 <= many <= 0.5, "1 sequence of 16": 0.3 <= few <= 0.5})

# %% [markdown]
# With few tokens the 16-bit copies of the weights cost more than the smaller activations bring in.
# [[Lesson memory]] computes where the two meet.
#
# ### Myth 33: The benchmark shows that AMP reduces memory
#
# Its two peaks are in the course's records, as quoted figures. It preloads 50 batches of inputs and
# targets. **Predict:** does its own peak fall? Does it, if the bytes of that data are taken out?

# %%
from amp_lessons.records import load_records

seed = next(record for record in load_records() if record.name == "seed_003")
plain, mixed = seed.rows
print(f"peak {plain.peak_bytes:,} bytes in FP32, {mixed.peak_bytes:,} with AMP")
copies = 3 * (4096 * 4096 + 4096) * 2  # three layers of 4096 by 4096, once more in FP16
print(f"growth {mixed.peak_bytes - plain.peak_bytes:,}; FP16 copies of all weights {copies:,}")
cases = {"the peak falls": mixed.peak_bytes < plain.peak_bytes}
trials.test(33, cases | {"without the data": mixed.step_peak_bytes < plain.step_peak_bytes})

# %% [markdown]
# To within a KiB the growth is the copies of the weights, and the text above its output says
# "reduce". [[Lesson memory]] takes the two figures apart.
#
# ## Speed and quality
#
# ### Myth 11: AMP costs no accuracy
#
# **Predict:** the digits with FP16 and a scaler, against FP32: the same accuracy, within 2 points?
# And the same with pixels a million times larger, as unscaled data can be?


# %%
def accuracy(pixel, mixed):
    network = training.digits_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    scaler = GradScaler("cpu", enabled=mixed)
    parts = digits.train_images.split(64), digits.train_labels.split(64)
    for images, labels in 4 * list(zip(*parts, strict=True)):
        optimizer.zero_grad()
        with region(enabled=mixed):
            loss = F.cross_entropy(network(images * pixel), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    with region(enabled=mixed), torch.no_grad():
        output = network(digits.validation_images * pixel)
    return (output.argmax(1) == digits.validation_labels).float().mean().item()


# %%
close = {
    name: accuracy(pixel, True) > accuracy(pixel, False) - 0.02
    for name, pixel in (("pixels of 0 to 1", 1.0), ("pixels of 0 to 1,000,000", 1e6))
}
trials.test(11, close)

# %% [markdown]
# No loss of accuracy is what the [paper](https://arxiv.org/abs/1710.03740) found for its networks.
# For yours it is a question, and a comparison answers it.
#
# ### Myth 26: AMP gives 1.5 to 2 times on Volta and 2 to 3 on Ampere
#
# Nothing is measured here; but a roofline ([[lesson speed]]) says how much AMP can gain *at most*.
# **Predict:** a product with a weight of 4096 by 4096, for 1 row and for 4096: what is the limit on
# a V100, and on an A100 over FP32 and over TF32? (The guide's range can be right where the limit
# lies in it, and above its lower end, since no limit is quite reached.)


# %%
from amp_lessons.roofline import Matmul, find_gpu, matmul_floor


def limit(gpu, baseline, rows):
    """How much faster than the baseline FP16 can be at most."""
    work, one = Matmul(rows, 4096, 4096), find_gpu(gpu)
    return round(matmul_floor(one, baseline, work) / matmul_floor(one, "fp16", work), 1)


# %%
cases = {}
for gpu, baseline, low, high in (
    ("V100", "fp32", 1.5, 2),
    ("A100", "fp32", 2, 3),
    ("A100", "tf32", 2, 3),
):
    for rows in (1, 4096):
        most = limit(gpu, baseline, rows)
        cases[f"{gpu} over {baseline.upper()}, rows {rows}: {most}"] = low < most <= high
trials.test(26, cases)

# %%
plots.curves(
    {
        "A100 over FP32": [limit("A100", "fp32", 2**n) for n in range(13)],
        "V100 over FP32": [limit("V100", "fp32", 2**n) for n in range(13)],
        "A100 over TF32": [limit("A100", "tf32", 2**n) for n in range(13)],
    },
    title="What FP16 can gain at most: by rows, GPU and baseline",
    xlabel="rows, as a power of two",
    ylabel="times as fast",
    alt="Limit of FP16's gain against the number of rows. All three curves are at 2 for few rows. Over "
    "FP32 the V100's rises to 8 and the A100's to 16; over TF32 the A100's stays at 2.",
)

# %% [markdown]
# With few rows the memory is the bound, and FP16 has half the bytes. With many the limit is 8 or
# 16, and over TF32, which many scripts have on, it stays at 2. Measured and published: 1.5 to 5.5
# times on V100 ([PyTorch's
# blog](https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/)).
# A range without a workload and a baseline is no statement.
#
# ### Myth 31: The speed-up is nearly free
#
# **Predict:** the loops of the course (`amp_lessons/training.py`) in FP32 and in FP16 with a
# scaler: more than 10 further lines of code? Further operations? Further reads that make Python
# wait for the device?


# %%
def price(train, *extra):
    """Lines of a loop's code, operations of one step, and numbers read from the device."""
    network, reads, item = training.digits_network(), [], torch.Tensor.item
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    batch = [(digits.train_images[:8], digits.train_labels[:8])]
    spy = mock.patch.object(torch.Tensor, "item", lambda t: reads.append(1) or item(t))
    with Watch() as watch, spy:
        train(network, optimizer, batch, *extra)
    return len(inspect.getsource(train).splitlines()), len(watch.ops), len(reads)


# %%
plain = price(training.train_fp32)
mixed = price(training.train_fp16, GradScaler("cpu"))
print("more lines, operations, reads:", [m > p for m, p in zip(mixed, plain, strict=True)])
cases = {"it costs at most 10 lines": mixed[0] <= plain[0] + 10}
trials.test(31, cases | {"no operations": mixed[1] <= plain[1], "no reads": mixed[2] <= plain[2]})

# %% [markdown]
# Casts, a look at every gradient, a read at each step, the copies of myth 33, now and then a
# skipped step, and your own comparison of quality. Cheap against large products; too dear for small
# ones.
#
# ### Myth 34: The benchmark shows what AMP gains
#
# It reports 7.738 s in FP32 and 3.325 s with AMP (quoted): one run of each, FP32 first, no warm-up.
# [[Lesson speed]]'s pretend GPU has a queue and invented times; these two programs take 20 ms each, and
# whoever is first pays for a start of five slow steps. **Predict:** what speed-up does the
# benchmark's method find between them? And the method of [[lesson speed]]?


# %%
from amp_lessons import timing
from amp_lessons.pretend_gpu import PretendGpu
from amp_lessons.roofline import GPUS, seed_floor

gpu = PretendGpu()
first, second = gpu.program("FP32", 20e-3, cold=5), gpu.program("AMP", 20e-3)


def benchmark(step):
    """Seconds of 150 steps, timed once, as the benchmark does it."""
    gpu.synchronize()
    start = gpu.clock()
    for _ in range(150):
        step(None)
    gpu.synchronize()
    return gpu.clock() - start


# %%
found = benchmark(first) / benchmark(second)
clock = timing.WallClock(gpu.synchronize, gpu.clock)
times = timing.compare({"a": lambda: first(None), "b": lambda: second(None)}, clock=clock)
print(f"its method: {found:.2f}; lesson 10's: {times['a'].median / times['b'].median:.2f}")
able = [g.name for g in GPUS if seed_floor(g, "fp32") < 7.738 and seed_floor(g, "fp16") < 3.325]
print("GPUs that are fast enough for its figures:", *able, sep="\n  ")
cases = {"equal programs come out equal": abs(found - 1) < 0.05, "the GPU is named": bool(seed.gpu)}
trials.test(34, cases | {"its figures fit one GPU only": len(able) == 1})

# %% [markdown]
# On an L4 its AMP run is decent, on an H100 poor. The quotient, 2.33, says nothing about AMP until
# GPU, baseline, warm-up, spread and quality are known. It may be right; nobody can tell.
#
# ## The verdicts
#
# **Predict:** how many of the 36 are plainly false, and how many hold somewhere?

# %%
for verdict in ("true", "true only when", "false"):
    print(f"{verdict:15}", sum(found == verdict for found in trials.found.values()))

# %%
trials.table()

# %% [markdown]
# About half are true of something. None is true as it stands, for so they were chosen.
#
# ### Five more sentences
#
# A test that always says no is worth nothing. Here are five more sentences of the same pages,
# judged by the same rule. **Predict:** which of them hold?

# %%
model, _, _ = fresh()
with region():
    output = model(x)
    loss = F.mse_loss(output, y)
with Watch() as watch:
    loss.backward()
products = [watch.count("mm", takes=dtype) for dtype in (half, single)]
sentences = {
    "inputs need no cast by hand": output.dtype is half,
    "mse_loss gives FP32": loss.dtype is single,
    "backward runs in the dtypes of the forward": products[0] > 0 and products[1] == 0,
    "a gradient of inf skips the step": move(overflow=True) == 0,
    "BF16's small gradients need no scaler": gradient_arrives(small, bfloat),
}
for sentence, holds in sentences.items():
    print(f"{verdict_of({sentence: holds})}: {sentence}")

# %% [markdown]
# All five. Take the habit with you: a claim, a case, a line that can say yes or no.
#
# # Part two: the clinic
#
# Each patient: the fault, what PyTorch says or does, the cure, and the proof that it helps.
# `clinic.read` prints what PyTorch says, if it is the pitfall's message (by a pattern, since
# wordings change between versions). `clinic.notice` is for those that say nothing: it wants to see
# the symptom. `clinic.mend` wants to see that the cure helps.
#
# ## What the scaler says
#
# ### Pitfall 1: No inf checks were recorded for this optimizer
#
# **Predict:** an optimizer was made for the old head, and then the head was replaced. Which call
# complains?

# %%
model, optimizer, scaler = fresh()
head = nn.Linear(8, 3)  # the optimizer does not know it
scaler.scale(F.mse_loss(head(x), y)).backward()
clinic.read(1, said(lambda: scaler.step(optimizer)))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
clinic.mend(1, "an optimizer for the new head", well=said(lambda: scaler.step(optimizer)) == "")

# %% [markdown]
# Without a scaler the same mistake says nothing: the optimizer steps over parameters that have no
# gradient. Here the scaler is the better watchman.
#
# ### Pitfall 2: No inf checks were recorded prior to update
#
# A loop leaves out `step` for a bad batch, but not `update`. **Predict:** what does `update` do?

# %%
model, optimizer, scaler = fresh()
scaler.scale(F.mse_loss(model(x), y) * torch.nan)
clinic.read(2, said(scaler.update))
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.mend(2, "step and update, or neither", well=said(scaler.update) == "")

# %% [markdown]
# ### Pitfall 3: unscale_ has already been called
#
# One call of `unscale_` stands before the norm is logged, another before the clipping.
# **Predict:** does the second one divide the gradients again?

# %%
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.unscale_(optimizer)
clinic.read(3, said(lambda: scaler.unscale_(optimizer)))
limits = (torch.inf, 1.0)  # the first only measures
norms = [nn.utils.clip_grad_norm_(model.parameters(), limit).item() for limit in limits]
scaler.step(optimizer)
well = norms[0] == norms[1] and said(scaler.update) == ""
clinic.mend(3, "once; the log and the clip see the same norm", well=well)

# %% [markdown]
# ### Pitfall 4: unscale_ is being called after step
#
# **Predict:** `update` was forgotten. What does the next iteration say?

# %%
scaler.scale(F.mse_loss(model(x), y)).backward()
scaler.step(optimizer)
clinic.read(4, said(lambda: scaler.unscale_(optimizer)))
scaler.update()
scaler.scale(F.mse_loss(model(x), y)).backward()
clinic.mend(4, "update after each step", well=said(lambda: scaler.unscale_(optimizer)) == "")

# %% [markdown]
# ### Pitfall 6: Attempting to unscale FP16 gradients
#
# A model was made with `.half()`, and its loop has a scaler. **Predict:** which call refuses? Is it
# enough to make the same model FP32 and leave the rest of the loop as it is?

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
clinic.mend(6, "FP32 parameters under autocast", well=message == "")

# %% [markdown]
# It is: a gradient has the dtype of its parameter.
#
# ### Pitfall 12: lr_scheduler.step before optimizer.step
#
# **Predict:** your order of calls is right. When does PyTorch say that it is wrong?


# %%
def first_step_skipped(ask):
    model, optimizer, scaler = fresh()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    scaler.scale(model(x).sum() * torch.inf).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if not ask or scaler.get_scale() >= before:
        scheduler.step()


clinic.read(12, said(lambda: first_step_skipped(ask=False)))
well = said(lambda: first_step_skipped(ask=True)) == ""
clinic.mend(12, "scheduler.step() only if the scale did not fall", well=well)

# %% [markdown]
# ### Pitfall 15: Closures and LBFGS
#
# **Predict:** LBFGS wants a closure. What does the scaler say to it? (Only if it comes by name: one
# by position gets through, and is neither scaled nor checked; [[lesson grad_scaler]].)

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
well = lbfgs.step(closure) > closure()
clinic.mend(15, "BF16 and no scaler: the loss falls", well=bool(well))

# %% [markdown]
# ## Runs that say nothing
#
# ### Pitfall 5: The loss is frozen
#
# **Predict:** ten steps under one autocast. Do the weights move? Does the loss? And if the outer
# region is a disabled one?


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
print("disabled outer region, the same:", ten_losses(region(enabled=False)) == frozen)
clinic.mend(5, "a region for each forward pass", well=each[-1] < frozen[0] / 2)

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
# weights move, and nobody looks at them. A disabled region counts as a region: `enabled=False`
# around a loop that opens its own regions freezes it all the same.
#
# ### Pitfall 14: Clipped before unscale_
#
# **Predict:** max_norm is 1 and the true norm below that. How far does the model move, against a
# loop that unscales first?


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
clinic.mend(14, "unscale_, clip, step", well=moved > 1000 * hardly)

# %% [markdown]
# ### Pitfall 16: Accumulation without division
#
# **Predict:** four micro-batches of a mean loss: how large is the gradient against that of the
# whole batch?


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
clinic.mend(16, "each loss divided by 4", well=abs(accumulated(4, True) / whole - 1) < 1e-4)

# %% [markdown]
# ### Pitfall 17: Two optimizers and two updates
#
# **Predict:** the first model overflows, and `update` halves the scale before the second one steps.
# What becomes of the second model's gradient?


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
clinic.mend(17, "one update, last", well=right == 4.0)

# %% [markdown]
# (Four rows of ones: the gradient is 4.) It was scaled by 65536 and divided by 32768.
#
# ### Pitfall 30: Trained in one precision, evaluated in another
#
# **Predict:** a model overflows in FP16, the precision of its training and of its serving. What
# does a validation in FP32 say?

# %%
model, _, _ = fresh()
scores = {}
for name, enabled in (("FP32", False), ("FP16", True)):
    with torch.no_grad(), region(enabled=enabled):
        scores[name] = F.mse_loss(model(x * 1e6), y).isfinite().item()
print("a finite validation loss:", scores)
clinic.notice(30, "the validation does not see the overflow", present=scores["FP32"])
clinic.mend(30, "validate in the precision of training", well=not scores["FP16"])

# %% [markdown]
# ## Dtypes that do not match
#
# ### Pitfall 8: Expected the same dtype
#
# **Predict:** the features come out of a region, and the head stands after it. Which of the two has
# to be cast?

# %%
head = nn.Linear(3, 2)
with region():
    features = layer(x)
clinic.read(8, said(lambda: head(features)))
clinic.mend(8, ".float() on what leaves the region", well=head(features.float()).dtype is single)

# %% [markdown]
# The tensor, never the module: a head in FP16 would have FP16 gradients (pitfall 6). The wording
# differs between ops and versions; look for "same dtype", "expected scalar type", "should be the
# same" (a convolution) or "does not match" (an LSTM).
#
# ### Pitfall 9: scatter and index_copy_ refuse
#
# **Predict:** inside the region, features are written into an FP32 buffer. Does autocast help?

# %%
rows = torch.arange(4)
with region():
    features, buffer = layer(x), torch.zeros(4, 3)
    clinic.read(9, said(lambda: buffer.scatter(0, rows.view(4, 1), features)))
    clinic.read(9, said(lambda: buffer.index_copy_(0, rows, features)))
    done = buffer.index_copy_(0, rows, features.to(buffer.dtype))
clinic.mend(9, ".to() the buffer's dtype", well=done.dtype is single)

# %% [markdown]
# ### Pitfall 10: A custom Function without its decorators
#
# **Predict:** its forward runs in the region. In which dtypes does its backward find the gradient
# and the saved weight?


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
clinic.mend(10, "custom_fwd and custom_bwd", well=backward_of(Decorated).dtype is single)

# %% [markdown]
# ### Pitfall 20: A mask of minus 1e9
#
# **Predict:** scores in FP16 get a mask of −1e9. What happens? And which number would fit?

# %%
scores, mask = torch.zeros(3, dtype=half), torch.tensor([False, False, True])
clinic.read(20, said(lambda: scores.masked_fill(mask, -1e9)))
lowest = torch.finfo(scores.dtype).min
weights = scores.masked_fill(mask, lowest).softmax(0)
print("lowest", lowest, " weights", weights.tolist())
clinic.mend(20, "torch.finfo(scores.dtype).min", well=weights[2].item() == 0)

# %% [markdown]
# ### Pitfall 29: NumPy has no bfloat16
#
# **Predict:** which of `.numpy()`, `.tolist()` and `.item()` refuses BF16?

# %%
values = torch.ones(1, dtype=bfloat)
print("tolist", said(values.tolist) == "", " item", said(values.item) == "")
clinic.read(29, said(values.numpy))
clinic.mend(29, ".float().numpy()", well=values.float().numpy().dtype == "float32")

# %% [markdown]
# ## Numbers that break
#
# ### Pitfall 11: BCELoss is unsafe to autocast
#
# Only CUDA raises; a CPU computes. `op_policy` asks CUDA's rules on fake tensors and gets the real
# message. **Predict:** at a logit of 10 and a target of 0, the true gradient is about 1. What does
# FP16 give on a CPU, through a sigmoid?

# %%
clinic.read(11, op_policy("binary_cross_entropy", "cuda").note)
logit, target = torch.tensor([10.0], dtype=half, requires_grad=True), torch.zeros(1)
with region():
    through_sigmoid = F.binary_cross_entropy(logit.sigmoid(), target)
    with_logits = F.binary_cross_entropy_with_logits(logit, target)
(wrong,) = torch.autograd.grad(through_sigmoid, logit)
(right,) = torch.autograd.grad(with_logits, logit)
print("through the sigmoid", wrong.item(), " with logits", right.item())
clinic.mend(11, "binary_cross_entropy_with_logits", well=right.item() == 1)

# %% [markdown]
# ### Pitfall 13: The scale sinks to nothing
#
# A network that was trained in BF16 may have features beyond 65504. **Predict:** what does the
# scaler do with them, and what does BF16 do?


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
    return scaler.get_scale(), loss.isfinite().item()


scale, finite = thirty_steps(half)
clinic.notice(13, f"a scale of {scale:.2g}, a finite loss: {finite}", present=scale < 1)
scale, finite = thirty_steps(bfloat)
clinic.mend(13, f"BF16: a scale of {scale:.0f}, a finite loss: {finite}", well=finite)

# %% [markdown]
# If the loss is inf before `scale`, look at the forward pass and leave the scaler alone.
#
# ### Pitfall 18: Adam in pure FP16 divides by zero
#
# **Predict:** one step, from 1, with gradients of 1e-4 and of 0.


# %%
def adam_step(dtype):
    weight = torch.ones(2, dtype=dtype, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.25)
    weight.grad = torch.tensor([1e-4, 0.0], dtype=dtype)
    optimizer.step()
    return weight.detach()


eps, squared = torch.tensor(1e-8).half().item(), torch.tensor(1e-4).half().square().item()
print("in FP16: eps", eps, " squared gradient", squared)
clinic.notice(18, str(adam_step(half).tolist()), present=not adam_step(half).isfinite().any())
well = (adam_step(single) - torch.tensor([0.75, 1.0])).abs().max().item() < 1e-3
clinic.mend(18, "FP32 parameters and states", well=well)

# %% [markdown]
# A small gradient is divided by $\sqrt{0} + 0$, a gradient of 0 is 0/0. The second ends as NaN
# although nothing asked it to move.
#
# ### Pitfall 19: log of p plus 1e-8
#
# **Predict:** the entropy of probabilities in FP16 of which one is 0: what does the 1e-8 save?

# %%
logits = torch.tensor([20.0, 0.0, -20.0], dtype=half)
p = logits.softmax(0)
entropy = -(p * (p + 1e-8).log()).sum()
clinic.notice(19, f"an entropy of {entropy.item()}", present=bool(entropy.isnan()))
log_p = logits.log_softmax(0)
stable = -(log_p.exp() * log_p).sum()
clinic.mend(19, "log_softmax", well=bool(stable.isfinite()))

# %% [markdown]
# ### Pitfall 21: BatchNorm in half precision
#
# Features of some 60,000 fit in FP16. **Predict:** does their variance? What does the layer give in
# evaluation, in a model that was made FP16, and in one under autocast?


# %%
def evaluated(norm, features):
    with region():
        norm.train()(features)
        return norm.running_var.item(), norm.eval()(features).flatten().tolist()


features = torch.tensor([[60000.0], [-60000.0], [30000.0]], dtype=half)
variance, output = evaluated(nn.BatchNorm1d(1).half(), features)
clinic.notice(21, f"variance {variance}, outputs {output}", present=not any(output))
variance, output = evaluated(nn.BatchNorm1d(1), features)
clinic.mend(21, "statistics in FP32", well=variance > 65504 and all(output))

# %% [markdown]
# BatchNorm is on no list of a CPU's or of CUDA's: its output has the dtype of its input. What saves
# it is that autocast leaves its parameters and statistics in FP32.
#
# ## Around the loop
#
# ### Pitfall 7: Gradients missing after a no_grad pass
#
# In older versions a cast made under `no_grad` stayed in the cache, without a history, and the next
# pass in the same region had no gradient. **Predict:** and today?

# %%
model, _, _ = fresh()
with region():
    with torch.no_grad():
        model(x)
    output = model(x)
print("has a history:", output.requires_grad, output.grad_fn is not None)
clinic.cite(7)

# %% [markdown]
# It works in 2.13, where a cast is made with its history whether gradients are on or not
# ([165068](https://github.com/pytorch/pytorch/pull/165068)). With an older version give the pass
# under `no_grad` a region of its own.
#
# ### Pitfall 22: RMSNorm has another dtype than before
#
# **Predict:** FP16 input, CUDA's autocast, this version: which dtype comes out of `rms_norm`?

# %%
print("cuda:", op_policy("rms_norm", "cuda").low, " cpu:", op_policy("rms_norm", "cpu").low)
clinic.cite(22)

# %% [markdown]
# Until 2.11 it was FP16 on CUDA, too. A behaviour belongs to a version and to a device: state both,
# and let a test hold what you rely on.
#
# ### Pitfall 26: Recomputed in another dtype
#
# A hand-made checkpoint, as in [[lesson past_one_gpu]]: the backward pass computes the layer once more.
# **Predict:** in which dtype are the products of that second pass?


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
clinic.mend(
    26, "torch.utils.checkpoint", well=fp32_products(partial(checkpoint, use_reentrant=False)) == 0
)

# %% [markdown]
# The backward pass stands outside, so the gradient belongs to another forward pass than the one
# whose loss you saw. If you have to write such a Function, `custom_fwd` and `custom_bwd` restore
# the region, as [[lesson past_one_gpu]] shows.
#
# ### Pitfall 27: A compiled backward ignores an inner region
#
# The last layer is kept in FP32, as for a number that FP16 cannot hold. **Predict:** its gradient
# is 65536 in eager mode. And compiled?


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
clinic.mend(27, f"{found} with backward_pass_autocast off", well=found == 65536)

# %% [markdown]
# The default of 2.13 is `"same_as_forward"`, and the
# [documentation](https://docs.pytorch.org/docs/2.13/user_guide/torch_compiler/torch.compiler_backward.html)
# warns of it. To make it `"off"` has been proposed
# ([177287](https://github.com/pytorch/pytorch/pull/177287)). Set it yourself where your backward
# pass stands outside autocast; [[lesson past_one_gpu]] shows when the setting is read, and a second cure.
#
# ## The machine
#
# ### Pitfall 23: No speed-up
#
# Only a GPU can show it, and [[lesson speed]] measures it. One cause can be counted anywhere.
# **Predict:** does autocast make a step of a small network of fewer operations, or of more?


# %%
def operations(enabled):
    with Watch() as watch, region(enabled=enabled):
        loss = F.cross_entropy(network(rows).float(), labels)
        torch.autograd.grad(loss, list(network.parameters()))
    return len(watch.ops)


network, rows, labels = training.digits_network(), digits.train_images[:8], digits.train_labels[:8]
print("more operations under autocast:", operations(True) > operations(False))
clinic.cite(23)

# %% [markdown]
# Each is a launch on a GPU, and where launches are the bound, autocast makes a step *slower*. Other
# causes: the data loader is the bound, TF32 is on already, there are no tensor cores for the dtype,
# sizes are no multiples of 8. [[Lesson speed]] tells them apart.
#
# ### Pitfall 24: Memory unchanged
#
# **Predict:** the transformer of myth 25, one sequence of 16 tokens a step. What does autocast
# save? What is the larger part of its memory?

# %%
plain = memory("fp32", 1, length=16)
print(f"weights, gradients and Adam's averages: {plain.model_states / plain.total:.0%} in FP32")
found = saving(1, length=16)
clinic.notice(24, f"{found:.0%} saved", present=found < 0.05)
clinic.mend(24, f"16 sequences of 64: {saving(16):.0%} saved", well=saving(16) > 0.3)

# %% [markdown]
# Weights, gradients and Adam's averages stay as they are. If they are your memory, look at the
# optimizer's state, at sharding ([[lesson past_one_gpu]]) or at smaller parameters, and not at autocast.
#
# ### Pitfall 25: Autocast on a CPU is slow
#
# **Predict:** ten forward passes of a layer, a region for each: how many products and how many
# casts, without autocast and with it? And for a layer that was cast to BF16 once?


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
clinic.mend(25, f"BF16, cast once: {cast_once}; or FP32", well=cast_once == fp32)

# %% [markdown]
# Training needs FP32 weights, so it pays for the casts; serving can cast once. Whether the product
# itself is faster in 16 bits depends on this machine's instructions. The next cell times it.

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
# **Predict:** what did `scaler.step` say there?

# %%
clinic.cite(28)

# %% [markdown]
# "Cannot convert a MPS Tensor to float64 dtype"
# ([issue 142397](https://github.com/pytorch/pytorch/issues/142397)). The cure is a newer version;
# not measured here.
#
# ## The record
#
# **Predict:** how many of the 30 could be had on a CPU, with this version?

# %%
for shown in ("triggered here", "cited"):
    print(f"{shown:15}", sum(found == shown for found in clinic.seen.values()))

# %%
clinic.table()

# %% [markdown]
# ## Recap
#
# 1. A claim about AMP is worth what its test is worth: name the op, the device, the version, the
#    baseline.
# 2. "FP32", "faster" and "smaller" are true of some ops, some sizes and some parts of memory; most
#    myths are one such case told as a rule.
# 3. The scaler's messages name the missing call; read them literally, and mend the order of calls
#    instead of silencing them.
# 4. The worst faults say nothing: a frozen loss, a clip too early, a stale cast, a gradient twice
#    too large. Look at losses, scale and dtypes in every run.
# 5. NaN means large numbers, or a logarithm or a quotient of zeros; a loss that stands still means
#    gradients of zero.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "myths_and_clinic.when_is_the_loss_fp32",
    "myths_and_clinic.scale_is_a_sixteenth",
    "myths_and_clinic.update_after_each_optimizer",
)

# %% [markdown]
# **Next:** [[exercises myths_and_clinic|ten cases]], the last exercises of the course.
# Each is a program that is ill; each has to end with the right loss, scale and dtypes.
